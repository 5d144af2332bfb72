// Conversions and bit casts.
AI F toF(I x){return CV(x,F);} AI D toD(F x){return D{CV(LO(x),DH),CV(HI(x),DH)};} AI D toD(I x){return D{CV(LO(x),DH),CV(HI(x),DH)};}
AI D toD(const L&x){return D{CV(x.a,DH),CV(x.b,DH)};} AI F toF(const D&x){FH a=CV(x.a,FH),b=CV(x.b,FH);return CAT(a,b);}
AI F toF(const L&x){FH a=CV(x.a,FH),b=CV(x.b,FH);return CAT(a,b);}
AI L toL(I x){return L{CV(LO(x),LH),CV(HI(x),LH)};} AI I toI(const L&x){IH a=CV(x.a,IH),b=CV(x.b,IH);return CAT(a,b);}
template<class T> AI T keep(T x){__asm__("":"+r"(x));return x;} template<class T> AI T keepv(T x){__asm__("":"+@K"(x));return x;}
AI int sat32(double x){return x!=x?0:x>=0x1p31?0x7fffffff:x<=-0x1p31?-0x7fffffff-1:keep((int)x);}
AI long sat64(double x){return x!=x?0:x>=0x1p63?0x7fffffffffffffffL:x<=-0x1p63?-0x7fffffffffffffffL-1:keep((long)x);}
AI int clamp(int x,int lo,int hi){return x<lo?lo:x>hi?hi:x;} AI I clamp(I x,int lo,int hi){x=x<lo?bI(lo):x;return x>hi?bI(hi):x;}
AI I sat32(F x){I r=keepv(CV(x,I));r=x>=bF(0x1p31f)?bI(0x7fffffff):r;return r&(x==x);}
AI I satD(const D&x){IH a=keepv(CV(x.a,IH)),b=keepv(CV(x.b,IH));return CAT(a,b);}
AI I sat32(const D&x){I r=satD(x);r=toI(x>=bD(0x1p31))?bI(0x7fffffff):r;r=toI(x<=bD(-0x1p31))?bI(-0x7fffffff-1):r;return r&toI(x==x);}
AI L sat64(const D&x){L r;for(int l=0;l<@H;l++){r.a[l]=sat64(x.a[l]);r.b[l]=sat64(x.b[l]);}return r;} AI L sat64(F x){return sat64(toD(x));}
AI I asI(F x){return (I)x;} AI F asF(I x){return (F)x;} AI L asL(const D&x){return L{(LH)x.a,(LH)x.b};} AI D asD(const L&x){return D{(DH)x.a,(DH)x.b};}
AI I wrap8(I x){return (x<<24)>>24;} AI I wrap16(I x){return (x<<16)>>16;}
AI float bf2f(short x){return CAST(float,(int)x<<16);} AI F bf2f(I x){return (F)(x<<16);}
AI short f2bf(float f){int x=CAST(int,f);return f!=f?(short)((x>>16)|64):(short)((x+0x7fff+((x>>16)&1))>>16);}
AI I f2bf(F f){I x=(I)f;I r=(x+0x7fff+((x>>16)&1))>>16;return f!=f?(x>>16)|64:r;}
