"""Where independent jobs run: in processes of this machine, or on Ray: docs/scale.md."""

from holdfast.executors.base import Executor, Failed, current, using
from holdfast.executors.local import Local
from holdfast.executors.named import executor_named
from holdfast.executors.on_ray import OnRay

__all__ = ["Executor", "Failed", "Local", "OnRay", "current", "executor_named", "using"]
