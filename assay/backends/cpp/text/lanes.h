// The same for any machine, lane by lane.
AI I wide(S x){return CV(x,I);} AI S narrow(I x){return CV(x,S);}
AI I ldC(const signed char*p){return CV(*(const Cu*)p,I);} AI I ldO(const unsigned char*p){return CV(*(const Ou*)p,I);}
AI void stC(signed char*p,I v){*(Cu*)p=CV(v,C);} AI void stO(unsigned char*p,I v){*(Ou*)p=CV(v,O);}
AI float h2f(short x){int s=(x&0x8000)<<16,e=(x>>10)&31,m=x&1023;if(e==31)return CAST(float,s|0x7f800000|m<<13);
 if(e==0){float f=(float)m*0x1p-24f;return CAST(float,CAST(int,f)|s);} return CAST(float,s|(e+112)<<23|m<<13);}
AI short f2h(float f){int x=CAST(int,f),s=(x>>16)&0x8000,u=x&0x7fffffff;if(u>0x7f800000)return (short)(s|0x7e00);if(u>=0x477ff000)return (short)(s|0x7c00);
 if(u<0x38800000)return (short)(s|(CAST(int,CAST(float,u)+0.5f)-0x3f000000));return (short)(s|((u+0xfff+((u>>13)&1)-(112<<23))>>13));}
AI F h2f(I x){F r;for(int l=0;l<@W;l++)r[l]=h2f((short)x[l]);return r;} AI I f2h(F x){I r;for(int l=0;l<@W;l++)r[l]=f2h(x[l]);return r;}
#define LW(name) AI F name(F x){F r;for(int l=0;l<@W;l++)r[l]=name(x[l]);return r;} AI DH name(DH x){DH r;for(int l=0;l<@H;l++)r[l]=name(x[l]);return r;} AI D name(const D&x){return D{name(x.a),name(x.b)};}
LW(sqrt_) LW(floor_) LW(ceil_) LW(trunc_) LW(roundeven_)
AI F gt(F a,F b){return a>b?a:b;} AI DH gt(DH a,DH b){return a>b?a:b;} AI F lt(F a,F b){return a<b?a:b;} AI DH lt(DH a,DH b){return a<b?a:b;}
AI I unordered(F a,F b){return (a!=a)|(b!=b);} AI LH unordered(DH a,DH b){return (a!=a)|(b!=b);}
AI bool some(I m){int r=0;for(int l=0;l<@W;l++)r|=m[l];return r;} AI bool some(const L&m){long r=0;LH o=m.a|m.b;for(int l=0;l<@H;l++)r|=o[l];return r;}
#define ML(name,T,V) AI V name(const T*p,I m){T v[@W];for(int l=0;l<@W;l++)v[l]=m[l]?p[l]:0;return ld##V(v);}
ML(mlF,float,F) ML(mlI,int,I) ML(mlD,double,D) ML(mlL,long,L)
#define ntF stF
#define ntI stI
#define ntD stD
#define ntL stL
AI void fence(){}
AI F fma_(F a,F b,F c){F r;for(int l=0;l<@W;l++)r[l]=__builtin_fmaf(a[l],b[l],c[l]);return r;}
AI DH fma_(DH a,DH b,DH c){DH r;for(int l=0;l<@H;l++)r[l]=__builtin_fma(a[l],b[l],c[l]);return r;}
AI LH even_products(I x,I y){return ((LH)x&0xffffffff)*((LH)y&0xffffffff);}
