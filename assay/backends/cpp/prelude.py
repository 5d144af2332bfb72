"""The C++ that every translation unit starts with: vector types and the operations that C++ does not spell itself.

No #include.  Register types, all of W lanes:

    F float   I int (also i8, i16, u8 and the bits of f16 and bf16, sign- or zero-extended)   D double   L long

D and L are pairs of vectors.  A boolean is a mask (0 or -1) in I or L, as wide as the operands it was computed from.
A scalar is broadcast by an initializer list: `F{} + x` would turn -0 into +0.
`keep` hides a value from the optimiser: under -fno-trapping-math g++ 12 takes (float)(int)x for trunc(x), which is -0 at -0.
"""

from __future__ import annotations

from functools import cache

from assay.backends.target import Target

_TYPES = r"""
#define AI static inline __attribute__((always_inline))
#define CV __builtin_convertvector
#define SH __builtin_shufflevector
#define CAST(T,x) __builtin_bit_cast(T,x)
typedef float F __attribute__((vector_size(@B))); typedef float Fu __attribute__((vector_size(@B),aligned(4)));
typedef int I __attribute__((vector_size(@B))); typedef int Iu __attribute__((vector_size(@B),aligned(4)));
typedef unsigned U __attribute__((vector_size(@B)));
typedef float FH __attribute__((vector_size(@B/2))); typedef int IH __attribute__((vector_size(@B/2)));
typedef double DH __attribute__((vector_size(@B))); typedef double DHu __attribute__((vector_size(@B),aligned(8)));
typedef long LH __attribute__((vector_size(@B))); typedef long LHu __attribute__((vector_size(@B),aligned(8)));
typedef long long QH __attribute__((vector_size(@B)));
typedef short S __attribute__((vector_size(@B/2))); typedef short Su __attribute__((vector_size(@B/2),aligned(2)));
typedef signed char C __attribute__((vector_size(@B/4))); typedef signed char Cu __attribute__((vector_size(@B/4),aligned(1)));
typedef unsigned char O __attribute__((vector_size(@B/4))); typedef unsigned char Ou __attribute__((vector_size(@B/4),aligned(1)));
struct D{DH a,b; double operator[](int l)const{return l<@H?a[l]:b[l-@H];}};
struct L{LH a,b; long operator[](int l)const{return l<@H?a[l]:b[l-@H];}};
#define B2(T,o,R) AI R operator o(T x,T y){return R{(x.a o y.a),(x.b o y.b)};}
B2(D,+,D) B2(D,-,D) B2(D,*,D) B2(D,/,D) B2(D,<,L) B2(D,<=,L) B2(D,==,L) B2(D,!=,L) B2(D,>,L) B2(D,>=,L)
B2(L,+,L) B2(L,-,L) B2(L,*,L) B2(L,&,L) B2(L,|,L) B2(L,^,L) B2(L,<,L) B2(L,<=,L) B2(L,==,L) B2(L,!=,L) B2(L,>,L) B2(L,>=,L)
AI D operator-(D x){return D{-x.a,-x.b};} AI L operator-(L x){return L{-x.a,-x.b};} AI L operator~(L x){return L{~x.a,~x.b};}
AI L operator<<(L x,int k){return L{x.a<<k,x.b<<k};} AI L operator>>(L x,int k){return L{x.a>>k,x.b>>k};}
#define LO(x) SH(x,x,@lo)
#define HI(x) SH(x,x,@hi)
#define CAT(x,y) SH(x,y,@all)
AI F bF(float x){return F{@x8};} AI I bI(int x){return I{@x8};} AI I bM(bool x){return bI(-(int)x);}
AI D bD(double x){DH v={@x4};return D{v,v};} AI L bL(long x){LH v={@x4};return L{v,v};} AI L bN(bool x){return bL(-(long)x);}
const I iota={@iota}; const L iotaL={LH{@iotalo},LH{@iotahi}};
#define mkF(...) F{__VA_ARGS__}
#define mkI(...) I{__VA_ARGS__}
AI D mkD(@dargs){return D{DH{@v4},DH{@w4}};} AI L mkL(@largs){return L{LH{@v4},LH{@w4}};}
"""

_MEMORY = r"""
AI F ldF(const float*p){return *(const Fu*)p;} AI I ldI(const int*p){return *(const Iu*)p;}
AI D ldD(const double*p){return D{*(const DHu*)p,*(const DHu*)(p+@H)};} AI L ldL(const long*p){return L{*(const LHu*)p,*(const LHu*)(p+@H)};}
AI void stF(float*p,F v){*(Fu*)p=v;} AI void stI(int*p,I v){*(Iu*)p=v;}
AI void stD(double*p,D v){*(DHu*)p=v.a;*(DHu*)(p+@H)=v.b;} AI void stL(long*p,L v){*(LHu*)p=v.a;*(LHu*)(p+@H)=v.b;}
"""

_NARROW = r"""
AI I wide(S x){return CV(x,I);} AI S narrow(I x){return CV(x,S);}
AI I ldC(const signed char*p){return CV(*(const Cu*)p,I);} AI I ldO(const unsigned char*p){return CV(*(const Ou*)p,I);}
AI void stC(signed char*p,I v){*(Cu*)p=CV(v,C);} AI void stO(unsigned char*p,I v){*(Ou*)p=CV(v,O);}
"""
_NARROW_AVX2 = r"""
typedef long q2 __attribute__((vector_size(16))); typedef char b16 __attribute__((vector_size(16))); typedef long lu __attribute__((aligned(1),may_alias));
AI I wide(S x){return (I)__builtin_ia32_pmovsxwd256(x);} AI S narrow(I x){return (S)__builtin_ia32_packssdw128(LO(x),HI(x));}
AI I ldC(const signed char*p){q2 v={*(const lu*)p,0};return (I)__builtin_ia32_pmovsxbd256((b16)v);}
AI I ldO(const unsigned char*p){q2 v={*(const lu*)p,0};return (I)__builtin_ia32_pmovzxbd256((b16)v);}
AI void stC(signed char*p,I v){S s=narrow(v);*(lu*)p=((q2)__builtin_ia32_packsswb128(s,s))[0];}
AI void stO(unsigned char*p,I v){S s=narrow(v);*(lu*)p=((q2)__builtin_ia32_packuswb128(s,s))[0];}
"""
_BYTES = r"""
AI I ldS(const short*p){return wide(*(const Su*)p);} AI void stS(short*p,I v){*(Su*)p=narrow(v);}
AI I ldM(const unsigned char*p){return ldO(p)!=0;} AI void stM(unsigned char*p,I v){stO(p,v&1);}
"""

_CONVERT = r"""
AI F toF(I x){return CV(x,F);} AI D toD(F x){return D{CV(LO(x),DH),CV(HI(x),DH)};} AI D toD(I x){return D{CV(LO(x),DH),CV(HI(x),DH)};}
AI D toD(L x){return D{CV(x.a,DH),CV(x.b,DH)};} AI F toF(D x){FH a=CV(x.a,FH),b=CV(x.b,FH);return CAT(a,b);}
AI F toF(L x){FH a=CV(x.a,FH),b=CV(x.b,FH);return CAT(a,b);}
AI L toL(I x){return L{CV(LO(x),LH),CV(HI(x),LH)};} AI I toI(L x){IH a=CV(x.a,IH),b=CV(x.b,IH);return CAT(a,b);}
template<class T> AI T keep(T x){__asm__("":"+r"(x));return x;} template<class T> AI T keepv(T x){__asm__("":"+@K"(x));return x;}
AI int sat32(double x){return x!=x?0:x>=0x1p31?0x7fffffff:x<=-0x1p31?-0x7fffffff-1:keep((int)x);}
AI long sat64(double x){return x!=x?0:x>=0x1p63?0x7fffffffffffffffL:x<=-0x1p63?-0x7fffffffffffffffL-1:keep((long)x);}
AI int clamp(int x,int lo,int hi){return x<lo?lo:x>hi?hi:x;} AI I clamp(I x,int lo,int hi){x=x<lo?bI(lo):x;return x>hi?bI(hi):x;}
AI I sat32(F x){I r=keepv(CV(x,I));r=x>=bF(0x1p31f)?bI(0x7fffffff):r;return r&(x==x);}
AI I satD(D x){IH a=keepv(CV(x.a,IH)),b=keepv(CV(x.b,IH));return CAT(a,b);}
AI I sat32(D x){I r=satD(x);r=toI(x>=bD(0x1p31))?bI(0x7fffffff):r;r=toI(x<=bD(-0x1p31))?bI(-0x7fffffff-1):r;return r&toI(x==x);}
AI L sat64(D x){L r;for(int l=0;l<@H;l++){r.a[l]=sat64(x.a[l]);r.b[l]=sat64(x.b[l]);}return r;} AI L sat64(F x){return sat64(toD(x));}
AI I asI(F x){return (I)x;} AI F asF(I x){return (F)x;} AI L asL(D x){return L{(LH)x.a,(LH)x.b};} AI D asD(L x){return D{(DH)x.a,(DH)x.b};}
AI I wrap8(I x){return (x<<24)>>24;} AI I wrap16(I x){return (x<<16)>>16;}
AI float bf2f(short x){return CAST(float,(int)x<<16);} AI F bf2f(I x){return (F)(x<<16);}
AI short f2bf(float f){int x=CAST(int,f);return f!=f?(short)((x>>16)|64):(short)((x+0x7fff+((x>>16)&1))>>16);}
AI I f2bf(F f){I x=(I)f;I r=(x+0x7fff+((x>>16)&1))>>16;return f!=f?(x>>16)|64:r;}
"""

_HALF_F16C = {
    32: r"""
typedef short s8 __attribute__((vector_size(16))); typedef float f4 __attribute__((vector_size(16)));
AI float h2f(short x){s8 v={x};return __builtin_ia32_vcvtph2ps(v)[0];} AI short f2h(float x){f4 v={x};return __builtin_ia32_vcvtps2ph(v,0)[0];}
AI F h2f(I x){return __builtin_ia32_vcvtph2ps256(narrow(x));} AI I f2h(F x){return wide((S)__builtin_ia32_vcvtps2ph256(x,0));}
""",
    64: r"""
typedef short s8 __attribute__((vector_size(16))); typedef float f4 __attribute__((vector_size(16)));
AI float h2f(short x){s8 v={x};return __builtin_ia32_vcvtph2ps(v)[0];} AI short f2h(float x){f4 v={x};return __builtin_ia32_vcvtps2ph(v,0)[0];}
AI F h2f(I x){return __builtin_ia32_vcvtph2ps512_mask(CV(x,S),F{},-1,4);} AI I f2h(F x){return CV((S)__builtin_ia32_vcvtps2ph512_mask(x,0,S{},-1),I);}
""",
}
_HALF = r"""
AI float h2f(short x){int s=(x&0x8000)<<16,e=(x>>10)&31,m=x&1023;if(e==31)return CAST(float,s|0x7f800000|m<<13);
 if(e==0){float f=(float)m*0x1p-24f;return CAST(float,CAST(int,f)|s);} return CAST(float,s|(e+112)<<23|m<<13);}
AI short f2h(float f){int x=CAST(int,f),s=(x>>16)&0x8000,u=x&0x7fffffff;if(u>0x7f800000)return (short)(s|0x7e00);if(u>=0x477ff000)return (short)(s|0x7c00);
 if(u<0x38800000)return (short)(s|(CAST(int,CAST(float,u)+0.5f)-0x3f000000));return (short)(s|((u+0xfff+((u>>13)&1)-(112<<23))>>13));}
AI F h2f(I x){F r;for(int l=0;l<@W;l++)r[l]=h2f((short)x[l]);return r;} AI I f2h(F x){I r;for(int l=0;l<@W;l++)r[l]=f2h(x[l]);return r;}
"""

_FLOAT = r"""
AI float fma_(float a,float b,float c){return __builtin_fmaf(a,b,c);} AI double fma_(double a,double b,double c){return __builtin_fma(a,b,c);}
AI float sqrt_(float a){return __builtin_sqrtf(a);} AI double sqrt_(double a){return __builtin_sqrt(a);}
AI float abs_(float a){return __builtin_fabsf(a);} AI double abs_(double a){return __builtin_fabs(a);} AI int abs_(int a){return a<0?-a:a;} AI long abs_(long a){return a<0?-a:a;}
AI F abs_(F x){return (F)((I)x&0x7fffffff);} AI D abs_(D x){return asD(asL(x)&bL(0x7fffffffffffffffL));}
AI I abs_(I x){return x<0?-x:x;} AI L abs_(L x){LH a=x.a<0?-x.a:x.a,b=x.b<0?-x.b:x.b;return L{a,b};}
#define RND(name) AI float name##_(float x){return __builtin_##name##f(x);} AI double name##_(double x){return __builtin_##name(x);}
RND(floor) RND(ceil) RND(trunc) RND(roundeven)
"""

_FLOAT_VECTOR = {
    32: r"""
AI F sqrt_(F a){return __builtin_ia32_sqrtps256(a);} AI D sqrt_(D a){return D{__builtin_ia32_sqrtpd256(a.a),__builtin_ia32_sqrtpd256(a.b)};}
#define RNV(name,imm) AI F name##_(F x){return __builtin_ia32_roundps256(x,imm);} AI D name##_(D x){return D{__builtin_ia32_roundpd256(x.a,imm),__builtin_ia32_roundpd256(x.b,imm)};}
RNV(floor,9) RNV(ceil,10) RNV(trunc,11) RNV(roundeven,8)
AI F gt(F a,F b){return __builtin_ia32_maxps256(a,b);} AI DH gt(DH a,DH b){return __builtin_ia32_maxpd256(a,b);}
AI F lt(F a,F b){return __builtin_ia32_minps256(a,b);} AI DH lt(DH a,DH b){return __builtin_ia32_minpd256(a,b);}
AI bool some(I m){return __builtin_ia32_movmskps256((F)m);} AI bool some(L m){return __builtin_ia32_movmskpd256((DH)(m.a|m.b));}
AI F mlF(const float*p,I m){return __builtin_ia32_maskloadps256((const F*)p,m);} AI I mlI(const int*p,I m){return (I)__builtin_ia32_maskloadps256((const F*)p,m);}
AI D mlD(const double*p,I m){L w=toL(m);return D{__builtin_ia32_maskloadpd256((const DH*)p,(QH)w.a),__builtin_ia32_maskloadpd256((const DH*)(p+@H),(QH)w.b)};}
AI L mlL(const long*p,I m){return asL(mlD((const double*)p,m));}
AI void ntF(float*p,F v){__builtin_ia32_movntps256(p,v);} AI void ntI(int*p,I v){ntF((float*)p,(F)v);}
AI void ntD(double*p,D v){__builtin_ia32_movntpd256(p,v.a);__builtin_ia32_movntpd256(p+@H,v.b);} AI void ntL(long*p,L v){ntD((double*)p,asD(v));}
AI void fence(){__builtin_ia32_sfence();}
""",
    64: r"""
AI F sqrt_(F a){return __builtin_ia32_sqrtps512_mask(a,a,-1,4);} AI D sqrt_(D a){return D{__builtin_ia32_sqrtpd512_mask(a.a,a.a,-1,4),__builtin_ia32_sqrtpd512_mask(a.b,a.b,-1,4)};}
#define RNV(name,imm) AI F name##_(F x){return __builtin_ia32_rndscaleps_mask(x,imm,x,-1,4);} AI D name##_(D x){return D{__builtin_ia32_rndscalepd_mask(x.a,imm,x.a,-1,4),__builtin_ia32_rndscalepd_mask(x.b,imm,x.b,-1,4)};}
RNV(floor,9) RNV(ceil,10) RNV(trunc,11) RNV(roundeven,8)
AI F gt(F a,F b){return __builtin_ia32_maxps512_mask(a,b,a,-1,4);} AI DH gt(DH a,DH b){return __builtin_ia32_maxpd512_mask(a,b,a,-1,4);}
AI F lt(F a,F b){return __builtin_ia32_minps512_mask(a,b,a,-1,4);} AI DH lt(DH a,DH b){return __builtin_ia32_minpd512_mask(a,b,a,-1,4);}
AI bool some(I m){return __builtin_ia32_cvtd2mask512(m);} AI bool some(L m){return __builtin_ia32_cvtq2mask512((QH)(m.a|m.b));}
AI F mlF(const float*p,I m){return __builtin_ia32_loadups512_mask(p,F{},__builtin_ia32_cvtd2mask512(m));} AI I mlI(const int*p,I m){return (I)mlF((const float*)p,m);}
AI D mlD(const double*p,I m){unsigned k=__builtin_ia32_cvtd2mask512(m);return D{__builtin_ia32_loadupd512_mask(p,DH{},k&255),__builtin_ia32_loadupd512_mask(p+@H,DH{},k>>8)};}
AI L mlL(const long*p,I m){return asL(mlD((const double*)p,m));}
AI void ntF(float*p,F v){__builtin_ia32_movntps512(p,v);} AI void ntI(int*p,I v){ntF((float*)p,(F)v);}
AI void ntD(double*p,D v){__builtin_ia32_movntpd512(p,v.a);__builtin_ia32_movntpd512(p+@H,v.b);} AI void ntL(long*p,L v){ntD((double*)p,asD(v));}
AI void fence(){__builtin_ia32_sfence();}
""",
}
_FLOAT_LANES = r"""
#define LW(name) AI F name(F x){F r;for(int l=0;l<@W;l++)r[l]=name(x[l]);return r;} AI DH name(DH x){DH r;for(int l=0;l<@H;l++)r[l]=name(x[l]);return r;} AI D name(D x){return D{name(x.a),name(x.b)};}
LW(sqrt_) LW(floor_) LW(ceil_) LW(trunc_) LW(roundeven_)
AI F gt(F a,F b){return a>b?a:b;} AI DH gt(DH a,DH b){return a>b?a:b;} AI F lt(F a,F b){return a<b?a:b;} AI DH lt(DH a,DH b){return a<b?a:b;}
AI bool some(I m){int r=0;for(int l=0;l<@W;l++)r|=m[l];return r;} AI bool some(L m){long r=0;LH o=m.a|m.b;for(int l=0;l<@H;l++)r|=o[l];return r;}
#define ML(name,T,V) AI V name(const T*p,I m){T v[@W];for(int l=0;l<@W;l++)v[l]=m[l]?p[l]:0;return ld##V(v);}
ML(mlF,float,F) ML(mlI,int,I) ML(mlD,double,D) ML(mlL,long,L)
#define ntF stF
#define ntI stI
#define ntD stD
#define ntL stL
AI void fence(){}
"""
_FMA = {
    32: r"""AI F fma_(F a,F b,F c){return __builtin_ia32_vfmaddps256(a,b,c);}
AI DH fma_(DH a,DH b,DH c){return __builtin_ia32_vfmaddpd256(a,b,c);}""",
    64: r"""AI F fma_(F a,F b,F c){return __builtin_ia32_vfmaddps512_mask(a,b,c,-1,4);}
AI DH fma_(DH a,DH b,DH c){return __builtin_ia32_vfmaddpd512_mask(a,b,c,-1,4);}""",
}
_FMA_LANES = r"""AI F fma_(F a,F b,F c){F r;for(int l=0;l<@W;l++)r[l]=__builtin_fmaf(a[l],b[l],c[l]);return r;}
AI DH fma_(DH a,DH b,DH c){DH r;for(int l=0;l<@H;l++)r[l]=__builtin_fma(a[l],b[l],c[l]);return r;}"""

_CHOICE = r"""
AI D fma_(D a,D b,D c){return D{fma_(a.a,b.a,c.a),fma_(a.b,b.b,c.b)};}
template<class T> AI T sel(bool c,T a,T b){return c?a:b;}
AI F sel(I m,F a,F b){return m?a:b;} AI I sel(I m,I a,I b){return m?a:b;}
AI D sel(L m,D x,D y){DH a=m.a?x.a:y.a,b=m.b?x.b:y.b;return D{a,b};} AI L sel(L m,L x,L y){LH a=m.a?x.a:y.a,b=m.b?x.b:y.b;return L{a,b};}
AI F max_(F a,F b){F r=(F)((I)gt(a,b)&(I)gt(b,a));I u=(a!=a)|(b!=b);return u?a+b:r;}
AI F min_(F a,F b){F r=(F)((I)lt(a,b)|(I)lt(b,a));I u=(a!=a)|(b!=b);return u?a+b:r;}
AI DH max_(DH a,DH b){DH r=(DH)((LH)gt(a,b)&(LH)gt(b,a));LH u=(a!=a)|(b!=b);return u?a+b:r;}
AI DH min_(DH a,DH b){DH r=(DH)((LH)lt(a,b)|(LH)lt(b,a));LH u=(a!=a)|(b!=b);return u?a+b:r;}
AI D max_(D a,D b){return D{max_(a.a,b.a),max_(a.b,b.b)};} AI D min_(D a,D b){return D{min_(a.a,b.a),min_(a.b,b.b)};}
AI I max_(I a,I b){return a>b?a:b;} AI I min_(I a,I b){return a<b?a:b;}
AI L max_(L a,L b){return sel(a>b,a,b);} AI L min_(L a,L b){return sel(a<b,a,b);}
template<class T> AI T max_(T a,T b){return a>b?a:b;} template<class T> AI T min_(T a,T b){return a<b?a:b;}
template<> float max_(float a,float b){return a<b?b:b<a?a:a==b?CAST(float,CAST(int,a)&CAST(int,b)):a+b;}
template<> float min_(float a,float b){return a<b?a:b<a?b:a==b?CAST(float,CAST(int,a)|CAST(int,b)):a+b;}
template<> double max_(double a,double b){return a<b?b:b<a?a:a==b?CAST(double,CAST(long,a)&CAST(long,b)):a+b;}
template<> double min_(double a,double b){return a<b?a:b<a?b:a==b?CAST(double,CAST(long,a)|CAST(long,b)):a+b;}
"""

_INTEGER = r"""
template<class T> AI T fdiv_(T x,T y){if(y==0)return 0;if(y==(T)-1&&(T)-1<0)return (T)(0-(unsigned long)x);T q=x/y;return q-((x%y!=0)&((x<0)!=(y<0)));}
template<class T> AI T fmod_(T x,T y){if(y==0||(y==(T)-1&&(T)-1<0))return 0;T r=x%y;return r!=0&&((r<0)!=(y<0))?r+y:r;}
AI I fdiv_(I x,I y){I q=satD(floor_(toD(x)/toD(y)));return q&(y!=0);} AI I fmod_(I x,I y){return (x-fdiv_(x,y)*y)&(y!=0);}
AI L fdiv_(L x,L y){L r;for(int l=0;l<@H;l++){r.a[l]=fdiv_(x.a[l],y.a[l]);r.b[l]=fdiv_(x.b[l],y.b[l]);}return r;}
AI L fmod_(L x,L y){L r;for(int l=0;l<@H;l++){r.a[l]=fmod_(x.a[l],y.a[l]);r.b[l]=fmod_(x.b[l],y.b[l]);}return r;}
template<class T> AI T shl_(T x,T n,int w){return (unsigned long)n<(unsigned long)w?(T)((unsigned long)x<<n):0;}
template<class T> AI T shr_(T x,T n,int w){return (unsigned long)n<(unsigned long)w?x>>n:x<0?-1:0;}
AI I inside(I n,int w){return (I)((U)n<(unsigned)w);}
AI I shl_(I x,I n,int w){return (x<<(n&31))&inside(n,w);} AI I shr_(I x,I n,int w){return x>>(inside(n,w)?n:bI(31));}
AI LH shl_(LH x,LH n){return (x<<(n&63))&(LH)((n>=0)&(n<64));} AI LH shr_(LH x,LH n){LH in=(n>=0)&(n<64);return x>>(in?n:(n&0)+63);}
AI L shl_(L x,L n,int w){return L{shl_(x.a,n.a),shl_(x.b,n.b)};} AI L shr_(L x,L n,int w){return L{shr_(x.a,n.a),shr_(x.b,n.b)};}
AI long fdiv(long a,long c){long q=a/c;return q-(a%c<0);}
AI I range(long b,long n){I i=iota+bI((int)(b<-@W?-@W:b>0x3fffffff?0x3fffffff:b));return (i>=0)&(i<(int)(n>0x3fffffff?0x3fffffff:n));}
AI void fail(long*s,long at){long old=__atomic_load_n(s,0);while(at<old&&!__atomic_compare_exchange_n(s,&old,at,false,0,0));}
"""


@cache
def prelude(target: Target) -> str:
    """The prelude for the vectors of `target`."""
    w, h = target.lanes, target.lanes // 2
    known = target.x86 and target.bytes in _FLOAT_VECTOR
    parts = [_TYPES, _MEMORY, _NARROW_AVX2 if known and target.bytes == 32 else _NARROW, _BYTES, _CONVERT, _FLOAT]
    parts.append(_FLOAT_VECTOR[target.bytes] if known else _FLOAT_LANES)
    parts.append(_FMA[target.bytes] if known and target.fma else _FMA_LANES)
    parts.append(_HALF_F16C[target.bytes] if known and target.f16c else _HALF)
    parts += [_CHOICE, _INTEGER]
    names = [f"v{k}" for k in range(w)]
    holes = {
        "@iotalo": range(h), "@iotahi": range(h, w), "@iota": range(w), "@lo": range(h), "@hi": range(h, w), "@all": range(w),
        "@x8": ["x"] * w, "@x4": ["x"] * h, "@dargs": [f"double {n}" for n in names], "@largs": [f"long {n}" for n in names],
        "@v4": names[:h], "@w4": names[h:],
    }  # fmt: skip
    text = "".join(parts)
    for hole, items in holes.items():
        text = text.replace(hole, ",".join(map(str, items)))
    text = text.replace("@K", "x" if target.x86 else "w")
    return text.replace("@B", str(target.bytes)).replace("@H", str(h)).replace("@W", str(w)).lstrip("\n")
