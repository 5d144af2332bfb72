// Loads of narrow elements, choices, maxima, integer operations.
AI I ldS(const short*p){return wide(*(const Su*)p);} AI void stS(short*p,I v){*(Su*)p=narrow(v);}
AI I ldM(const unsigned char*p){return ldO(p)!=0;} AI void stM(unsigned char*p,I v){stO(p,v&1);}
AI D fma_(const D&a,const D&b,const D&c){return D{fma_(a.a,b.a,c.a),fma_(a.b,b.b,c.b)};}
template<class T> AI T sel(bool c,T a,T b){return c?a:b;}
AI F sel(I m,F a,F b){return m?a:b;} AI I sel(I m,I a,I b){return m?a:b;}
AI D sel(const L&m,const D&x,const D&y){DH a=m.a?x.a:y.a,b=m.b?x.b:y.b;return D{a,b};} AI L sel(const L&m,const L&x,const L&y){LH a=m.a?x.a:y.a,b=m.b?x.b:y.b;return L{a,b};}
AI F max_(F a,F b){F r=(F)((I)gt(a,b)&(I)gt(b,a));return unordered(a,b)?a+b:r;}
AI F min_(F a,F b){F r=(F)((I)lt(a,b)|(I)lt(b,a));return unordered(a,b)?a+b:r;}
AI DH max_(DH a,DH b){DH r=(DH)((LH)gt(a,b)&(LH)gt(b,a));return unordered(a,b)?a+b:r;}
AI DH min_(DH a,DH b){DH r=(DH)((LH)lt(a,b)|(LH)lt(b,a));return unordered(a,b)?a+b:r;}
AI D max_(const D&a,const D&b){return D{max_(a.a,b.a),max_(a.b,b.b)};} AI D min_(const D&a,const D&b){return D{min_(a.a,b.a),min_(a.b,b.b)};}
AI I max_(I a,I b){return a>b?a:b;} AI I min_(I a,I b){return a<b?a:b;}
AI L max_(const L&a,const L&b){return sel(a>b,a,b);} AI L min_(const L&a,const L&b){return sel(a<b,a,b);}
template<class T> AI T max_(T a,T b){return a>b?a:b;} template<class T> AI T min_(T a,T b){return a<b?a:b;}
// of two random numbers the greater is not predicted: no branches, lane 0 of a vector
AI float max_(float a,float b){return max_(F{a},F{b})[0];} AI float min_(float a,float b){return min_(F{a},F{b})[0];}
AI double max_(double a,double b){return max_(DH{a},DH{b})[0];} AI double min_(double a,double b){return min_(DH{a},DH{b})[0];}
template<class T> AI T fdiv_(T x,T y){if(y==0)return 0;if(y==(T)-1&&(T)-1<0)return (T)(0-(unsigned long)x);T q=x/y;return q-((x%y!=0)&((x<0)!=(y<0)));}
template<class T> AI T fmod_(T x,T y){if(y==0||(y==(T)-1&&(T)-1<0))return 0;T r=x%y;return r!=0&&((r<0)!=(y<0))?r+y:r;}
AI I fdiv_(I x,I y){I q=satD(floor_(toD(x)/toD(y)));return q&(y!=0);} AI I fmod_(I x,I y){return (x-fdiv_(x,y)*y)&(y!=0);}
AI L fdiv_(const L&x,const L&y){L r;for(int l=0;l<@H;l++){r.a[l]=fdiv_(x.a[l],y.a[l]);r.b[l]=fdiv_(x.b[l],y.b[l]);}return r;}
AI L fmod_(const L&x,const L&y){L r;for(int l=0;l<@H;l++){r.a[l]=fmod_(x.a[l],y.a[l]);r.b[l]=fmod_(x.b[l],y.b[l]);}return r;}
template<class T> AI T shl_(T x,T n,int w){return (unsigned long)n<(unsigned long)w?(T)((unsigned long)x<<n):0;}
template<class T> AI T shr_(T x,T n,int w){return (unsigned long)n<(unsigned long)w?x>>n:x<0?-1:0;}
// upper halves of unsigned products: those of the even lanes, and those of the odd ones moved there
AI int umulhi_(int x,int y){return (int)((unsigned long)(unsigned)x*(unsigned)y>>32);}
AI I odd(I x){return SH(x,x,@up);} AI I umulhi_(I x,I y){I a=(I)even_products(x,y),b=(I)even_products(odd(x),odd(y));return SH(a,b,@odd);}
AI I inside(I n,int w){return (I)((U)n<(unsigned)w);}
AI I shl_(I x,I n,int w){return (x<<(n&31))&inside(n,w);} AI I shr_(I x,I n,int w){return x>>(inside(n,w)?n:bI(31));}
AI LH shl_(LH x,LH n){return (x<<(n&63))&(LH)((n>=0)&(n<64));} AI LH shr_(LH x,LH n){LH in=(n>=0)&(n<64);return x>>(in?n:(n&0)+63);}
AI L shl_(const L&x,const L&n,int w){return L{shl_(x.a,n.a),shl_(x.b,n.b)};} AI L shr_(const L&x,const L&n,int w){return L{shr_(x.a,n.a),shr_(x.b,n.b)};}
AI long fdiv(long a,long c){long q=a/c;return q-(a%c<0);}
AI I range(long b,long n){long e=n-b;return (iota>=bI((int)(b<-@W?@W:b<0?-b:0)))&(iota<bI((int)(e<0?0:e>@W?@W:e)));}
AI void fail(long*s,long at){long old=__atomic_load_n(s,0);while(at<old&&!__atomic_compare_exchange_n(s,&old,at,false,0,0));}
