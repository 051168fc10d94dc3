package main

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"helm.sh/helm/v3/pkg/release"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
	"sigs.k8s.io/yaml"
)

const finalizer = "helm.sdk.operatorframework.io/uninstall-release"

type reconciler struct {
	client     client.Client
	manager    manager.Manager
	controller controller.Controller
	watch      watch
	period     time.Duration

	mutex   sync.Mutex
	watched map[schema.GroupVersionKind]bool
}

func addController(mgr manager.Manager, w watch, period time.Duration, workers int) error {
	r := &reconciler{
		client: mgr.GetClient(), manager: mgr, watch: w, period: period,
		watched: map[schema.GroupVersionKind]bool{},
	}
	name := strings.ToLower(w.Kind) + "-controller"
	c, err := controller.New(name, mgr, controller.Options{Reconciler: r, MaxConcurrentReconciles: workers})
	if err != nil {
		return err
	}
	r.controller = c
	primary := &unstructured.Unstructured{}
	primary.SetGroupVersionKind(w.gvk())
	return c.Watch(source.Kind[client.Object](mgr.GetCache(), primary, &handler.EnqueueRequestForObject{},
		predicate.GenerationChangedPredicate{}))
}

func (r *reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(r.watch.gvk())
	if err := r.client.Get(ctx, request.NamespacedName, object); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	releases, err := r.releasesFor(object)
	if err != nil {
		return reconcile.Result{}, err
	}
	status := statusOf(object)
	if object.GetDeletionTimestamp() != nil {
		return reconcile.Result{}, r.uninstall(ctx, object, releases)
	}
	status.set("Initialized", "", "")
	if err := releases.sync(); err != nil {
		status.set("Irreconcilable", "ReconcileError", err.Error())
		_ = r.writeStatus(ctx, object, status)
		return reconcile.Result{}, err
	}
	status.unset("Irreconcilable")
	again := reconcile.Result{RequeueAfter: r.period}

	switch {
	case releases.deployed == nil:
		installed, err := releases.install()
		if err != nil {
			status.set("ReleaseFailed", "InstallError", err.Error())
			_ = r.writeStatus(ctx, object, status)
			return reconcile.Result{}, err
		}
		if controllerutil.AddFinalizer(object, finalizer) {
			if err := r.client.Update(ctx, object); err != nil {
				return reconcile.Result{}, err
			}
		}
		return again, r.settle(ctx, object, status, installed, "InstallSuccessful")
	case releases.upgradeNeeded:
		upgraded, err := releases.upgrade()
		if err != nil {
			status.set("ReleaseFailed", "UpgradeError", err.Error())
			_ = r.writeStatus(ctx, object, status)
			return reconcile.Result{}, err
		}
		return again, r.settle(ctx, object, status, upgraded, "UpgradeSuccessful")
	}
	if err := releases.reassert(ctx); err != nil {
		status.set("Irreconcilable", "ReconcileError", err.Error())
		_ = r.writeStatus(ctx, object, status)
		return reconcile.Result{}, err
	}
	reason := "UpgradeSuccessful"
	if releases.deployed.Version == 1 {
		reason = "InstallSuccessful"
	}
	return again, r.settle(ctx, object, status, releases.deployed, reason)
}

// settle watches the kinds of the release and reports the release in the status.
func (r *reconciler) settle(
	ctx context.Context, object *unstructured.Unstructured, status *conditions, deployed *release.Release, reason string,
) error {
	if err := r.watchDependents(deployed); err != nil {
		return err
	}
	status.unset("ReleaseFailed")
	notes := ""
	if deployed.Info != nil {
		notes = deployed.Info.Notes
	}
	status.set("Deployed", reason, notes)
	status.release = map[string]any{"name": deployed.Name, "manifest": deployed.Manifest}
	return r.writeStatus(ctx, object, status)
}

func (r *reconciler) uninstall(ctx context.Context, object *unstructured.Unstructured, releases *releases) error {
	if !controllerutil.ContainsFinalizer(object, finalizer) {
		return nil
	}
	if err := releases.uninstall(); err != nil {
		return err
	}
	controllerutil.RemoveFinalizer(object, finalizer)
	return client.IgnoreNotFound(r.client.Update(ctx, object))
}

// watchDependents starts watching the kinds of a release, once per kind.
func (r *reconciler) watchDependents(deployed *release.Release) error {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	owner := &unstructured.Unstructured{}
	owner.SetGroupVersionKind(r.watch.gvk())
	for _, document := range strings.Split(deployed.Manifest, "\n---\n") {
		dependent := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(document), dependent); err != nil || dependent.GetKind() == "" {
			continue
		}
		gvk := dependent.GroupVersionKind()
		if r.watched[gvk] {
			continue
		}
		watched := &unstructured.Unstructured{}
		watched.SetGroupVersionKind(gvk)
		toOwner := handler.EnqueueRequestForOwner(r.manager.GetScheme(), r.manager.GetRESTMapper(), owner)
		if err := r.controller.Watch(source.Kind[client.Object](r.manager.GetCache(), watched, toOwner, dependentPredicate())); err != nil {
			return err
		}
		r.watched[gvk] = true
	}
	return nil
}

// dependentPredicate passes updates that change more than the status.
func dependentPredicate() predicate.Predicate {
	bare := func(object client.Object) map[string]any {
		found, ok := object.(*unstructured.Unstructured)
		if !ok {
			return nil
		}
		found = found.DeepCopy()
		delete(found.Object, "status")
		found.SetResourceVersion("")
		found.SetManagedFields(nil)
		return found.Object
	}
	return predicate.Funcs{
		CreateFunc:  func(event.CreateEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			return !equality.Semantic.DeepEqual(bare(e.ObjectOld), bare(e.ObjectNew))
		},
	}
}

// conditions holds the status of an object.
type conditions struct {
	all     []any
	release map[string]any
}

func statusOf(object *unstructured.Unstructured) *conditions {
	all, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	deployed, _, _ := unstructured.NestedMap(object.Object, "status", "deployedRelease")
	return &conditions{all: all, release: deployed}
}

func (c *conditions) set(kind, reason, message string) {
	now := time.Now().UTC().Format(time.RFC3339)
	wanted := map[string]any{"type": kind, "status": "True", "lastTransitionTime": now}
	if reason != "" {
		wanted["reason"] = reason
	}
	if message != "" {
		wanted["message"] = message
	}
	for i, one := range c.all {
		known, ok := one.(map[string]any)
		if ok && known["type"] == kind {
			if known["status"] == "True" {
				wanted["lastTransitionTime"] = known["lastTransitionTime"]
			}
			c.all[i] = wanted
			return
		}
	}
	c.all = append(c.all, wanted)
}

func (c *conditions) unset(kind string) {
	var left []any
	for _, one := range c.all {
		if known, ok := one.(map[string]any); !ok || known["type"] != kind {
			left = append(left, one)
		}
	}
	c.all = left
}

func (r *reconciler) writeStatus(ctx context.Context, object *unstructured.Unstructured, status *conditions) error {
	content := map[string]any{"conditions": status.all}
	if status.release != nil {
		content["deployedRelease"] = status.release
	}
	object.Object["status"] = content
	err := r.client.Status().Update(ctx, object)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("writing the status: %w", err)
	}
	return nil
}
