// Everything a program needs.
#pragma once

#include "gradwire/base/error.h"
#include "gradwire/rpc/cancellation.h"
#include "gradwire/rpc/task.h"
#include "gradwire/rpc/worker.h"
