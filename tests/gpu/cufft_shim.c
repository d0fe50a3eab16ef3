/* A libcufft that refuses every plan: what broke the reference project's samples, on demand.
 *
 *     gcc -shared -fPIC -O1 -o cufft_shim.so benchmarks/cufft_shim.c
 *     LD_PRELOAD=./cufft_shim.so python -m xtts doctor --no-cache
 *
 * It has no versions of its own, so the loader takes it for every version that torch asks for.
 * torch 2.11 plans through cufftXtMakePlanMany; the others are what older ones and plans of one
 * dimension went through. CUFFT_INVALID_SIZE is 8 in cufft.h.
 */

#define REFUSE(name) int name(void) { return 8; }

REFUSE(cufftPlan1d)
REFUSE(cufftPlan2d)
REFUSE(cufftPlan3d)
REFUSE(cufftPlanMany)
REFUSE(cufftMakePlan1d)
REFUSE(cufftMakePlan2d)
REFUSE(cufftMakePlan3d)
REFUSE(cufftMakePlanMany)
REFUSE(cufftMakePlanMany64)
REFUSE(cufftXtMakePlanMany)
