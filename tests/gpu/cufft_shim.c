/* A libcufft that refuses every plan: the fault that broke the reference project's samples.
 *
 *     gcc -shared -fPIC -O1 -o cufft_shim.so tests/gpu/cufft_shim.c
 *     LD_PRELOAD=./cufft_shim.so python -m xtts doctor --no-cache
 *
 * Its symbols have no versions, so the loader accepts it for any version that torch requests.
 * torch 2.11 plans through cufftXtMakePlanMany; older versions and one-dimensional plans used the
 * other functions. CUFFT_INVALID_SIZE is 8 in cufft.h.
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
