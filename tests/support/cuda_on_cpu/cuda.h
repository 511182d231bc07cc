/* SPDX-License-Identifier: Apache-2.0
 *
 * CUDA on the CPU: as much of cuda.h, the driver's functions, as src/cuda uses. */
#ifndef EST_TESTS_CUDA_H
#define EST_TESTS_CUDA_H

#include <stddef.h>
#include <stdint.h>

typedef enum CUresult { CUDA_SUCCESS = 0, CUDA_ERROR_OUT_OF_MEMORY = 2 } CUresult;
typedef uintptr_t CUdeviceptr;
typedef size_t    CUmemGenericAllocationHandle; /* its bytes */

enum {
    CU_MEM_ALLOCATION_TYPE_PINNED      = 1,
    CU_MEM_LOCATION_TYPE_DEVICE        = 1,
    CU_MEM_ALLOC_GRANULARITY_MINIMUM   = 0,
    CU_MEM_ACCESS_FLAGS_PROT_READWRITE = 3
};

typedef struct CUmemLocation {
    int type, id;
} CUmemLocation;

typedef struct CUmemAllocationProp {
    int           type;
    CUmemLocation location;
} CUmemAllocationProp;

typedef struct CUmemAccessDesc {
    CUmemLocation location;
    int           flags;
} CUmemAccessDesc;

CUresult cuMemGetAllocationGranularity(size_t *out, const CUmemAllocationProp *memory, int option);
CUresult cuMemAddressReserve(CUdeviceptr *out, size_t bytes, size_t alignment, CUdeviceptr at,
                             unsigned long long flags);
CUresult cuMemCreate(CUmemGenericAllocationHandle *out, size_t bytes, const CUmemAllocationProp *memory,
                     unsigned long long flags);
CUresult cuMemMap(CUdeviceptr at, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
                  unsigned long long flags);
CUresult cuMemSetAccess(CUdeviceptr at, size_t bytes, const CUmemAccessDesc *access, size_t n);
CUresult cuMemUnmap(CUdeviceptr at, size_t bytes);
CUresult cuMemRelease(CUmemGenericAllocationHandle handle);

#endif
