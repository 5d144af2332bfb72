// Floating point on scalars.
AI float fma_(float a,float b,float c){return __builtin_fmaf(a,b,c);} AI double fma_(double a,double b,double c){return __builtin_fma(a,b,c);}
AI float sqrt_(float a){return __builtin_sqrtf(a);} AI double sqrt_(double a){return __builtin_sqrt(a);}
AI float abs_(float a){return __builtin_fabsf(a);} AI double abs_(double a){return __builtin_fabs(a);} AI int abs_(int a){return a<0?-a:a;} AI long abs_(long a){return a<0?-a:a;}
AI F abs_(F x){return (F)((I)x&0x7fffffff);} AI D abs_(const D&x){return asD(asL(x)&bL(0x7fffffffffffffffL));}
AI I abs_(I x){return x<0?-x:x;} AI L abs_(const L&x){LH a=x.a<0?-x.a:x.a,b=x.b<0?-x.b:x.b;return L{a,b};}
#define RND(name) AI float name##_(float x){return __builtin_##name##f(x);} AI double name##_(double x){return __builtin_##name(x);}
RND(floor) RND(ceil) RND(trunc) RND(roundeven)
