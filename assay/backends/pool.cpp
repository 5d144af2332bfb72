// The pool of threads, and the call that binds numpy arrays and runs a program: see threads.py.
extern "C" {
int pthread_create(unsigned long*,const void*,void*(*)(void*),void*); int pthread_detach(unsigned long);
int pthread_atfork(void(*)(),void(*)(),void(*)()); long syscall(long,...); int sched_yield(); int sched_getcpu(); int gettid();
int sched_getaffinity(int,unsigned long,unsigned long*); int sched_setaffinity(int,unsigned long,const unsigned long*);
}
#if defined(__x86_64__)
#define FUTEX 202
#define RELAX __builtin_ia32_pause()
// Rounding to nearest, subnormals kept: whatever other libraries of the process have set in this thread.
struct Ieee { unsigned old; Ieee():old(__builtin_ia32_stmxcsr()){if((old&~63u)!=0x1f80)__builtin_ia32_ldmxcsr(0x1f80);}
 ~Ieee(){if((old&~63u)!=0x1f80)__builtin_ia32_ldmxcsr(old);} };
#else
struct Ieee {};
#define FUTEX 98
#define RELAX __asm__ volatile("yield")
#endif
typedef void (*Kernel)(void**,long,long);
enum {SPIN=1500,MOST=256}; // parts at most
static struct alignas(64) { int v; } generation, pending, sleeping, busy;
static struct { int thread, cpu; } at[MOST]; // of each worker: its number, and the processor of its last part, or -1
static Kernel job; static void**data; static long units; static int parts, workers; static bool hooked;
static int get(int*p){return __atomic_load_n(p,5);}
static void part(int k){ job(data, units*k/parts, units*(k+1)/parts); }
static void* work(void*id){
  Ieee mode;
  long k=(long)id>>32; int seen=(int)(long)id;
  at[k].thread=gettid();
  for(;;){
    int now;
    for(int s=0;(now=get(&generation.v))==seen;){
      if(++s<SPIN) RELAX;
      else { __atomic_fetch_add(&sleeping.v,1,5); syscall(FUTEX,&generation.v,128,seen,0,0,0); __atomic_fetch_sub(&sleeping.v,1,5); }
    }
    seen=now;
    if(k<parts){ part((int)k); at[k].cpu=sched_getcpu(); }
    __atomic_fetch_sub(&pending.v,1,5);
  }
  return 0;
}
// Where a virtual machine reports its idle processors as taken, the kernel wakes workers on the caller's processor, and half
// of them wait for the other half: a worker that was found on the processor of another part may use only those that are free.
struct Processors { unsigned long bits[16];
 bool has(int c)const{ return c>=0&&c<1024&&bits[c/64]>>c%64&1; }
 void drop(int c){ if(c>=0&&c<1024) bits[c/64]&=~(1ul<<c%64); }
 bool any()const{ for(unsigned long b:bits) if(b) return true; return false; } };
static void apart(){
  Processors used={}, allowed={};
  const int here=sched_getcpu();
  for(int k=0;k<parts;k++){
    const int c=k?at[k].cpu:here;
    if(c<0||c>=1024) continue;
    if(!used.has(c)){ used.bits[c/64]|=1ul<<c%64; continue; }
    if(!allowed.any()&&sched_getaffinity(0,sizeof allowed,allowed.bits)<0) return;
    Processors open=allowed;
    open.drop(here);
    for(int j=1;j<parts;j++) if(j!=k) open.drop(at[j].cpu);
    if(!open.any()||sched_setaffinity(at[k].thread,sizeof open,open.bits)) continue;
    for(int c=0;c<1024;c++) if(open.has(c)){ at[k].cpu=c; used.bits[c/64]|=1ul<<c%64; break; }
  }
}
static void child(){ workers=0; generation.v=pending.v=sleeping.v=busy.v=0; }
extern "C" void parallel(Kernel f,void**P,long n,long threads){
  if(threads>n) threads=n;
  if(threads>MOST) threads=MOST;
  int idle=0;
  if(threads<=1||!__atomic_compare_exchange_n(&busy.v,&idle,1,false,5,5)){ f(P,0,n); return; }
  if(!hooked){ hooked=true; pthread_atfork(0,0,child); }
  while(workers<threads-1){
    at[workers+1].cpu=-1;
    unsigned long t; long id=(long)(workers+1)<<32|(unsigned)generation.v;
    if(pthread_create(&t,0,work,(void*)id)) break;
    pthread_detach(t); workers++;
  }
  job=f; data=P; units=n; parts=(int)(threads<workers+1?threads:workers+1);
  apart();
  __atomic_store_n(&pending.v,workers,5);
  __atomic_fetch_add(&generation.v,1,5);
  if(get(&sleeping.v)) syscall(FUTEX,&generation.v,129,0x7fffffff,0,0,0);
  part(0);
  for(int s=0;get(&pending.v);) if(++s<SPIN) RELAX; else sched_yield();
  __atomic_store_n(&busy.v,0,5);
}
struct Buffer { void*buf; void*obj; long len, itemsize; int readonly, ndim; const char*format; long*shape,*strides,*suboffsets; void*internal; };
extern "C" { int PyObject_GetBuffer(void*,Buffer*,int); void PyBuffer_Release(Buffer*); void PyErr_Clear(); void*PyEval_SaveThread(); void PyEval_RestoreThread(void*);
void*PyTuple_GetItem(void*,long); long PyTuple_Size(void*); }
struct Input { long ndim; long format; const long*shape; };
typedef long (*Run)(void**,void(*)(Kernel,void**,long,long),long);
struct Call { const Input*in; long n; void**P; Run run; long threads, release; };
// Binds the arrays of a tuple to P[0..n) and runs.  -k-1: array k is not as `in` says (the caller finds out how).
extern "C" long call(void*arrays,const Call*c){
  const Input*in=c->in; const long n=c->n; void**const P=c->P;
  if(PyTuple_Size(arrays)!=n) return -n-1;
  for(long k=0;k<n;k++){
    Buffer b;
    if(PyObject_GetBuffer(PyTuple_GetItem(arrays,k),&b,0x0c)){ PyErr_Clear(); return -k-1; }
    bool good=b.ndim==in[k].ndim&&b.format&&b.format[0]==(char)in[k].format&&!b.format[1]&&!((long)b.buf&(b.itemsize-1));
    for(int d=0;good&&d<b.ndim;d++) good=b.shape[d]==in[k].shape[d];
    P[k]=b.buf; PyBuffer_Release(&b);
    if(!good) return -k-1;
  }
  Ieee mode;
  if(!c->release) return c->run(P,parallel,c->threads);
  void*state=PyEval_SaveThread(); long r=c->run(P,parallel,c->threads); PyEval_RestoreThread(state);
  return r;
}
extern "C" long bound(void**P,Run run,long threads){ Ieee mode; return run(P,parallel,threads); }
