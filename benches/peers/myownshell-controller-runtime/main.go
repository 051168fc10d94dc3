// Command myownshell-controller-runtime is the operator of examples/myownshell on controller-runtime, written as kubebuilder
// scaffolds it.
package main

import (
	"context"
	"fmt"
	"os"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

const finalizer = "myownshell.my-first-operator.jgato.io/finalizer"

type MyOwnShellSpec struct {
	Size int32 `json:"size"`
}

type MyOwnShellStatus struct {
	ReadyReplicas int32              `json:"readyReplicas"`
	Conditions    []metav1.Condition `json:"conditions,omitempty"`
}

type MyOwnShell struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              MyOwnShellSpec   `json:"spec,omitempty"`
	Status            MyOwnShellStatus `json:"status,omitempty"`
}

type MyOwnShellList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []MyOwnShell `json:"items"`
}

func (in *MyOwnShell) DeepCopyObject() runtime.Object {
	out := *in
	in.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	out.Status.Conditions = append([]metav1.Condition(nil), in.Status.Conditions...)
	return &out
}

func (in *MyOwnShellList) DeepCopyObject() runtime.Object {
	out := *in
	out.Items = make([]MyOwnShell, len(in.Items))
	for i := range in.Items {
		out.Items[i] = *in.Items[i].DeepCopyObject().(*MyOwnShell)
	}
	return &out
}

type reconciler struct {
	client.Client
	scheme *runtime.Scheme
}

func (r *reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	shell := &MyOwnShell{}
	if err := r.Get(ctx, req.NamespacedName, shell); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: shell.Name, Namespace: shell.Namespace}}
	found := true
	if err := r.Get(ctx, client.ObjectKeyFromObject(deployment), deployment); apierrors.IsNotFound(err) {
		found = false
	} else if err != nil {
		return ctrl.Result{}, err
	}
	if found && !deployment.DeletionTimestamp.IsZero() && controllerutil.RemoveFinalizer(deployment, finalizer) {
		return ctrl.Result{}, client.IgnoreNotFound(r.Update(ctx, deployment))
	}
	if !shell.DeletionTimestamp.IsZero() {
		if !controllerutil.ContainsFinalizer(shell, finalizer) {
			return ctrl.Result{}, nil
		}
		if found {
			if err := r.Delete(ctx, deployment); client.IgnoreNotFound(err) != nil {
				return ctrl.Result{}, err
			}
		}
		controllerutil.RemoveFinalizer(shell, finalizer)
		return ctrl.Result{}, client.IgnoreNotFound(r.Update(ctx, shell))
	}
	if controllerutil.AddFinalizer(shell, finalizer) {
		if err := r.Update(ctx, shell); err != nil {
			return ctrl.Result{}, err
		}
	}
	if _, err := controllerutil.CreateOrUpdate(ctx, r.Client, deployment, func() error {
		return r.desire(shell, deployment)
	}); err != nil {
		return ctrl.Result{}, err
	}
	before := shell.DeepCopyObject().(*MyOwnShell)
	ready := deployment.Status.ReadyReplicas
	shell.Status.ReadyReplicas = ready
	condition := metav1.Condition{
		Type: "Available", Status: metav1.ConditionFalse, Reason: "Starting", ObservedGeneration: shell.Generation,
		Message: fmt.Sprintf("%d of %d shells are ready", ready, shell.Spec.Size),
	}
	if ready == shell.Spec.Size {
		condition.Status, condition.Reason = metav1.ConditionTrue, "AllReady"
		condition.Message = fmt.Sprintf("%d shells are ready", ready)
	}
	meta.SetStatusCondition(&shell.Status.Conditions, condition)
	if equality.Semantic.DeepEqual(before.Status, shell.Status) {
		return ctrl.Result{}, nil
	}
	return ctrl.Result{}, r.Status().Update(ctx, shell)
}

func (r *reconciler) desire(shell *MyOwnShell, deployment *appsv1.Deployment) error {
	labels := map[string]string{"app": "myownshell", "myownshell_cr": shell.Name}
	deployment.Labels = labels
	controllerutil.AddFinalizer(deployment, finalizer)
	deployment.Spec.Replicas = ptr.To(shell.Spec.Size)
	deployment.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
	deployment.Spec.Template.Labels = labels
	if len(deployment.Spec.Template.Spec.Containers) != 1 {
		deployment.Spec.Template.Spec.Containers = []corev1.Container{{}}
	}
	container := &deployment.Spec.Template.Spec.Containers[0]
	container.Name = "busybox"
	container.Image = "docker.io/library/busybox:1.37"
	container.Command = []string{"sleep", "infinity"}
	return controllerutil.SetControllerReference(shell, deployment, r.scheme)
}

func main() {
	ctrl.SetLogger(zap.New())
	scheme := runtime.NewScheme()
	must(clientgoscheme.AddToScheme(scheme))
	version := schema.GroupVersion{Group: "my-first-operator.jgato.io", Version: "v1alpha1"}
	scheme.AddKnownTypes(version, &MyOwnShell{}, &MyOwnShellList{})
	metav1.AddToGroupVersion(scheme, version)
	config := ctrl.GetConfigOrDie()
	// No client-side rate limit: the benchmark measures the operator, not throttling.
	config.QPS = -1
	options := ctrl.Options{Scheme: scheme, Metrics: metricsserver.Options{BindAddress: "0"}}
	if namespace := os.Getenv("WATCH_NAMESPACE"); namespace != "" {
		options.Cache.DefaultNamespaces = map[string]cache.Config{namespace: {}}
	}
	manager, err := ctrl.NewManager(config, options)
	must(err)
	must(ctrl.NewControllerManagedBy(manager).
		For(&MyOwnShell{}).
		Owns(&appsv1.Deployment{}).
		WithOptions(controller.Options{MaxConcurrentReconciles: 16}).
		Complete(&reconciler{manager.GetClient(), scheme}))
	must(manager.Start(ctrl.SetupSignalHandler()))
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
