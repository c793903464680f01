// Everything a program needs.
#pragma once

#include "gradwire/autograd/context.h"
#include "gradwire/base/error.h"
#include "gradwire/metrics.h"
#include "gradwire/nn/checkpoint.h"
#include "gradwire/nn/remote_module.h"
#include "gradwire/optim/distributed_optimizer.h"
#include "gradwire/rpc/cancellation.h"
#include "gradwire/rpc/task.h"
#include "gradwire/rpc/worker.h"
#include "gradwire/rref/reference_report.h"
#include "gradwire/rref/rref.h"
#include "gradwire/rref/type_entry.h"
