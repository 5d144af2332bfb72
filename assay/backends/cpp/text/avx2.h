// What AVX2, FMA and F16C have instructions for.
typedef long q2 __attribute__((vector_size(16))); typedef char b16 __attribute__((vector_size(16))); typedef long lu __attribute__((aligned(1),may_alias));
AI I wide(S x){return (I)__builtin_ia32_pmovsxwd256(x);} AI S narrow(I x){return (S)__builtin_ia32_packssdw128(LO(x),HI(x));}
AI I ldC(const signed char*p){q2 v={*(const lu*)p,0};return (I)__builtin_ia32_pmovsxbd256((b16)v);}
AI I ldO(const unsigned char*p){q2 v={*(const lu*)p,0};return (I)__builtin_ia32_pmovzxbd256((b16)v);}
AI void stC(signed char*p,I v){S s=narrow(v);*(lu*)p=((q2)__builtin_ia32_packsswb128(s,s))[0];}
AI void stO(unsigned char*p,I v){S s=narrow(v);*(lu*)p=((q2)__builtin_ia32_packuswb128(s,s))[0];}
typedef short s8 __attribute__((vector_size(16))); typedef float f4 __attribute__((vector_size(16)));
AI float h2f(short x){s8 v={x};return __builtin_ia32_vcvtph2ps(v)[0];} AI short f2h(float x){f4 v={x};return __builtin_ia32_vcvtps2ph(v,0)[0];}
AI F h2f(I x){return __builtin_ia32_vcvtph2ps256(narrow(x));} AI I f2h(F x){return wide((S)__builtin_ia32_vcvtps2ph256(x,0));}
AI F sqrt_(F a){return __builtin_ia32_sqrtps256(a);} AI D sqrt_(const D&a){return D{__builtin_ia32_sqrtpd256(a.a),__builtin_ia32_sqrtpd256(a.b)};}
#define RNV(name,imm) AI F name##_(F x){return __builtin_ia32_roundps256(x,imm);} AI D name##_(const D&x){return D{__builtin_ia32_roundpd256(x.a,imm),__builtin_ia32_roundpd256(x.b,imm)};}
RNV(floor,9) RNV(ceil,10) RNV(trunc,11) RNV(roundeven,8)
AI F gt(F a,F b){return __builtin_ia32_maxps256(a,b);} AI DH gt(DH a,DH b){return __builtin_ia32_maxpd256(a,b);}
AI F lt(F a,F b){return __builtin_ia32_minps256(a,b);} AI DH lt(DH a,DH b){return __builtin_ia32_minpd256(a,b);}
AI I unordered(F a,F b){return (I)__builtin_ia32_cmpps256(a,b,3);} AI LH unordered(DH a,DH b){return (LH)__builtin_ia32_cmppd256(a,b,3);}
AI bool some(I m){return __builtin_ia32_movmskps256((F)m);} AI bool some(const L&m){return __builtin_ia32_movmskpd256((DH)(m.a|m.b));}
AI F mlF(const float*p,I m){return __builtin_ia32_maskloadps256((const F*)p,m);} AI I mlI(const int*p,I m){return (I)__builtin_ia32_maskloadps256((const F*)p,m);}
AI D mlD(const double*p,I m){L w=toL(m);return D{__builtin_ia32_maskloadpd256((const DH*)p,(QH)w.a),__builtin_ia32_maskloadpd256((const DH*)(p+@H),(QH)w.b)};}
AI L mlL(const long*p,I m){return asL(mlD((const double*)p,m));}
AI void ntF(float*p,F v){__builtin_ia32_movntps256(p,v);} AI void ntI(int*p,I v){ntF((float*)p,(F)v);}
AI void ntD(double*p,const D&v){__builtin_ia32_movntpd256(p,v.a);__builtin_ia32_movntpd256(p+@H,v.b);} AI void ntL(long*p,const L&v){ntD((double*)p,asD(v));}
AI void fence(){__builtin_ia32_sfence();}
AI F fma_(F a,F b,F c){return __builtin_ia32_vfmaddps256(a,b,c);}
AI DH fma_(DH a,DH b,DH c){return __builtin_ia32_vfmaddpd256(a,b,c);}
AI LH even_products(I x,I y){return (LH)__builtin_ia32_pmuludq256(x,y);}
