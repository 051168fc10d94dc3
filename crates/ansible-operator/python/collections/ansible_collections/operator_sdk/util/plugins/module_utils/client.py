"""The cluster as the run's kubeconfig shows it."""

from __future__ import annotations

import os
import traceback

from ansible.module_utils.basic import missing_required_lib

try:
    import kubernetes
    import kubernetes.dynamic
    from kubernetes.dynamic.exceptions import DynamicApiError

    IMPORT_ERROR = None
except ImportError:
    DynamicApiError = Exception
    IMPORT_ERROR = traceback.format_exc()

#: Arguments that select the cluster, as in kubernetes.core.
AUTH_ARGUMENTS = {
    "kubeconfig": {"type": "path"},
    "context": {"type": "str"},
}


def connect(module):
    """A dynamic client, or the end of the module with the reason."""
    if IMPORT_ERROR:
        module.fail_json(msg=missing_required_lib("kubernetes"), exception=IMPORT_ERROR)
    path = module.params["kubeconfig"] or os.environ.get("K8S_AUTH_KUBECONFIG") or os.environ.get("KUBECONFIG")
    configuration = kubernetes.client.Configuration()
    try:
        kubernetes.config.load_kube_config(
            config_file=path, context=module.params["context"], client_configuration=configuration
        )
        return kubernetes.dynamic.DynamicClient(kubernetes.client.ApiClient(configuration))
    except Exception as error:
        module.fail_json(msg=f"Failed to get client due to {error}")


def resource(module, client, api_version, kind):
    """A kind that the cluster serves, or the end of the module with the reason."""
    try:
        return client.resources.get(api_version=api_version, kind=kind)
    except Exception as error:
        module.fail_json(msg=f"Failed to find resource {api_version} {kind}: {error}")


def reason(error):
    """What the API server said."""
    return f"{getattr(error, 'status', '')} {getattr(error, 'summary', lambda: error)()}".strip()
