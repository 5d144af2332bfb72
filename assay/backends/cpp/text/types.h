// Register types, broadcasts, loads and stores of whole elements. @W lanes, @B bytes, @H = @W/2.
#ifndef AI  /* a build that is not to be quick, but built quickly, says -DAI="static inline" */
#define AI static inline __attribute__((always_inline))
#endif
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
#define B2(T,o,R) AI R operator o(const T&x,const T&y){return R{(x.a o y.a),(x.b o y.b)};}
B2(D,+,D) B2(D,-,D) B2(D,*,D) B2(D,/,D) B2(D,<,L) B2(D,<=,L) B2(D,==,L) B2(D,!=,L) B2(D,>,L) B2(D,>=,L)
B2(L,+,L) B2(L,-,L) B2(L,*,L) B2(L,&,L) B2(L,|,L) B2(L,^,L) B2(L,<,L) B2(L,<=,L) B2(L,==,L) B2(L,!=,L) B2(L,>,L) B2(L,>=,L)
AI D operator-(const D&x){return D{-x.a,-x.b};} AI L operator-(const L&x){return L{-x.a,-x.b};} AI L operator~(const L&x){return L{~x.a,~x.b};}
AI L operator<<(const L&x,int k){return L{x.a<<k,x.b<<k};} AI L operator>>(const L&x,int k){return L{x.a>>k,x.b>>k};}
#define LO(x) SH(x,x,@lo)
#define HI(x) SH(x,x,@hi)
#define CAT(x,y) SH(x,y,@all)
AI F bF(float x){return F{@x8};} AI I bI(int x){return I{@x8};} AI I bM(bool x){return bI(-(int)x);}
AI D bD(double x){DH v={@x4};return D{v,v};} AI L bL(long x){LH v={@x4};return L{v,v};} AI L bN(bool x){return bL(-(long)x);}
const I iota={@iota}; const L iotaL={LH{@iotalo},LH{@iotahi}};
#define mkF(...) F{__VA_ARGS__}
#define mkI(...) I{__VA_ARGS__}
AI D mkD(@dargs){return D{DH{@v4},DH{@w4}};} AI L mkL(@largs){return L{LH{@v4},LH{@w4}};}
AI F ldF(const float*p){return *(const Fu*)p;} AI I ldI(const int*p){return *(const Iu*)p;}
AI D ldD(const double*p){return D{*(const DHu*)p,*(const DHu*)(p+@H)};} AI L ldL(const long*p){return L{*(const LHu*)p,*(const LHu*)(p+@H)};}
AI void stF(float*p,F v){*(Fu*)p=v;} AI void stI(int*p,I v){*(Iu*)p=v;}
AI void stD(double*p,const D&v){*(DHu*)p=v.a;*(DHu*)(p+@H)=v.b;} AI void stL(long*p,const L&v){*(LHu*)p=v.a;*(LHu*)(p+@H)=v.b;}
