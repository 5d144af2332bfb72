// What AVX-512 (F, DQ, VL) has instructions for.
AI I wide(S x){return CV(x,I);} AI S narrow(I x){return CV(x,S);}
AI I ldC(const signed char*p){return CV(*(const Cu*)p,I);} AI I ldO(const unsigned char*p){return CV(*(const Ou*)p,I);}
AI void stC(signed char*p,I v){*(Cu*)p=CV(v,C);} AI void stO(unsigned char*p,I v){*(Ou*)p=CV(v,O);}
typedef short s8 __attribute__((vector_size(16))); typedef float f4 __attribute__((vector_size(16)));
AI float h2f(short x){s8 v={x};return __builtin_ia32_vcvtph2ps(v)[0];} AI short f2h(float x){f4 v={x};return __builtin_ia32_vcvtps2ph(v,0)[0];}
AI F h2f(I x){return __builtin_ia32_vcvtph2ps512_mask(CV(x,S),F{},-1,4);} AI I f2h(F x){return CV((S)__builtin_ia32_vcvtps2ph512_mask(x,0,S{},-1),I);}
AI F sqrt_(F a){return __builtin_ia32_sqrtps512_mask(a,a,-1,4);} AI D sqrt_(const D&a){return D{__builtin_ia32_sqrtpd512_mask(a.a,a.a,-1,4),__builtin_ia32_sqrtpd512_mask(a.b,a.b,-1,4)};}
#define RNV(name,imm) AI F name##_(F x){return __builtin_ia32_rndscaleps_mask(x,imm,x,-1,4);} AI D name##_(const D&x){return D{__builtin_ia32_rndscalepd_mask(x.a,imm,x.a,-1,4),__builtin_ia32_rndscalepd_mask(x.b,imm,x.b,-1,4)};}
RNV(floor,9) RNV(ceil,10) RNV(trunc,11) RNV(roundeven,8)
AI F gt(F a,F b){return __builtin_ia32_maxps512_mask(a,b,a,-1,4);} AI DH gt(DH a,DH b){return __builtin_ia32_maxpd512_mask(a,b,a,-1,4);}
AI F lt(F a,F b){return __builtin_ia32_minps512_mask(a,b,a,-1,4);} AI DH lt(DH a,DH b){return __builtin_ia32_minpd512_mask(a,b,a,-1,4);}
AI I unordered(F a,F b){return (a!=a)|(b!=b);} AI LH unordered(DH a,DH b){return (a!=a)|(b!=b);}
AI bool some(I m){return __builtin_ia32_cvtd2mask512(m);} AI bool some(const L&m){return __builtin_ia32_cvtq2mask512((QH)(m.a|m.b));}
AI F mlF(const float*p,I m){return __builtin_ia32_loadups512_mask(p,F{},__builtin_ia32_cvtd2mask512(m));} AI I mlI(const int*p,I m){return (I)mlF((const float*)p,m);}
AI D mlD(const double*p,I m){unsigned k=__builtin_ia32_cvtd2mask512(m);return D{__builtin_ia32_loadupd512_mask(p,DH{},k&255),__builtin_ia32_loadupd512_mask(p+@H,DH{},k>>8)};}
AI L mlL(const long*p,I m){return asL(mlD((const double*)p,m));}
AI void ntF(float*p,F v){__builtin_ia32_movntps512(p,v);} AI void ntI(int*p,I v){ntF((float*)p,(F)v);}
AI void ntD(double*p,const D&v){__builtin_ia32_movntpd512(p,v.a);__builtin_ia32_movntpd512(p+@H,v.b);} AI void ntL(long*p,const L&v){ntD((double*)p,asD(v));}
AI void fence(){__builtin_ia32_sfence();}
AI F fma_(F a,F b,F c){return __builtin_ia32_vfmaddps512_mask(a,b,c,-1,4);}
AI DH fma_(DH a,DH b,DH c){return __builtin_ia32_vfmaddpd512_mask(a,b,c,-1,4);}
AI LH even_products(I x,I y){return (LH)__builtin_ia32_pmuludq512_mask(x,y,QH{},-1);}
