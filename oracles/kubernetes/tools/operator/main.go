// Command operator is a typical operator built with controller-runtime: it maintains a config map and a deployment for each
// Greeting, reports them in its status, and leaves a farewell when one is deleted.
//
// It uses the features of a cluster that operators use: discovery, informers, server-side apply, updates with conflicts,
// status, events, finalizers, owner references and a lease.
package main

import (
	"context"
	"fmt"
	"os"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	corev1apply "k8s.io/client-go/applyconfigurations/core/v1"
	metav1apply "k8s.io/client-go/applyconfigurations/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

const (
	finalizer = "example.steersman.dev/farewell"
	manager   = "greeter"
)

var groupVersion = schema.GroupVersion{Group: "example.steersman.dev", Version: "v1"}

type greeter struct {
	client.Client
	recorder events.EventRecorder
}

func (g *greeter) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var greeting Greeting
	if err := g.Get(ctx, request.NamespacedName, &greeting); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !greeting.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, g.farewell(ctx, &greeting)
	}
	if controllerutil.AddFinalizer(&greeting, finalizer) {
		if err := g.Update(ctx, &greeting); err != nil {
			return ctrl.Result{}, err
		}
	}
	if err := g.applyText(ctx, &greeting); err != nil {
		return ctrl.Result{}, fmt.Errorf("config map: %w", err)
	}
	deployment, err := g.ensureDeployment(ctx, &greeting)
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("deployment: %w", err)
	}
	return ctrl.Result{}, g.report(ctx, &greeting, deployment)
}

// applyText maintains the config map with server-side apply.
func (g *greeter) applyText(ctx context.Context, greeting *Greeting) error {
	owner := metav1apply.OwnerReference().
		WithAPIVersion(groupVersion.String()).WithKind("Greeting").
		WithName(greeting.Name).WithUID(greeting.UID).
		WithController(true).WithBlockOwnerDeletion(true)
	config := corev1apply.ConfigMap(greeting.Name, greeting.Namespace).
		WithOwnerReferences(owner).
		WithData(map[string]string{"text": greeting.Spec.Text})
	return g.Apply(ctx, config, client.FieldOwner(manager), client.ForceOwnership)
}

// ensureDeployment maintains the deployment with read-modify-update.
func (g *greeter) ensureDeployment(ctx context.Context, greeting *Greeting) (*appsv1.Deployment, error) {
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: greeting.Name, Namespace: greeting.Namespace}}
	done, err := controllerutil.CreateOrUpdate(ctx, g.Client, deployment, func() error {
		labels := map[string]string{"greeting": greeting.Name}
		deployment.Spec.Replicas = &greeting.Spec.Replicas
		deployment.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
		deployment.Spec.Template.Labels = labels
		if len(deployment.Spec.Template.Spec.Containers) == 0 {
			deployment.Spec.Template.Spec.Containers = []corev1.Container{{Name: "greeter"}}
		}
		deployment.Spec.Template.Spec.Containers[0].Image = "registry.example.com/greeter:1"
		return controllerutil.SetControllerReference(greeting, deployment, g.Scheme())
	})
	if err == nil && done != controllerutil.OperationResultNone {
		g.recorder.Eventf(greeting, deployment, corev1.EventTypeNormal, "Deployed", "Deploy", "the deployment was %s", done)
	}
	return deployment, err
}

func (g *greeter) report(ctx context.Context, greeting *Greeting, deployment *appsv1.Deployment) error {
	base := greeting.DeepCopy()
	condition := metav1.Condition{
		Type: "Ready", Status: metav1.ConditionFalse, Reason: "Waiting", ObservedGeneration: greeting.Generation,
		Message: fmt.Sprintf("%d of %d are ready", deployment.Status.ReadyReplicas, greeting.Spec.Replicas),
	}
	if deployment.Status.ReadyReplicas == greeting.Spec.Replicas {
		condition.Status, condition.Reason = metav1.ConditionTrue, "AllReady"
	}
	changed := meta.SetStatusCondition(&greeting.Status.Conditions, condition)
	if !changed && greeting.Status.ReadyReplicas == deployment.Status.ReadyReplicas {
		return nil
	}
	greeting.Status.ReadyReplicas = deployment.Status.ReadyReplicas
	return g.Status().Patch(ctx, greeting, client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{}))
}

// farewell cleans up; the config map that it creates outlives the greeting.
func (g *greeter) farewell(ctx context.Context, greeting *Greeting) error {
	if !controllerutil.ContainsFinalizer(greeting, finalizer) {
		return nil
	}
	note := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "farewell-" + greeting.Name, Namespace: greeting.Namespace},
		Data:       map[string]string{"text": greeting.Spec.Text},
	}
	if err := g.Create(ctx, note); client.IgnoreAlreadyExists(err) != nil {
		return err
	}
	controllerutil.RemoveFinalizer(greeting, finalizer)
	return g.Update(ctx, greeting)
}

func run() error {
	ctrl.SetLogger(zap.New())
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return err
	}
	scheme.AddKnownTypes(groupVersion, &Greeting{}, &GreetingList{})
	metav1.AddToGroupVersion(scheme, groupVersion)
	config, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:                        scheme,
		LeaderElection:                true,
		LeaderElectionID:              "greeter.example.steersman.dev",
		LeaderElectionNamespace:       "default",
		LeaderElectionReleaseOnCancel: true,
		Metrics:                       server.Options{BindAddress: "0"},
	})
	if err != nil {
		return err
	}
	g := &greeter{Client: mgr.GetClient(), recorder: mgr.GetEventRecorder(manager)}
	err = ctrl.NewControllerManagedBy(mgr).For(&Greeting{}).Owns(&corev1.ConfigMap{}).Owns(&appsv1.Deployment{}).Complete(g)
	if err != nil {
		return err
	}
	return mgr.Start(ctrl.SetupSignalHandler())
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "operator:", err)
		os.Exit(1)
	}
}
