// Command generated-name is an operator on controller-runtime with a common bug: each shop gets a config map with a
// generated name, which only the status records. A crash between the two writes causes a second config map, and nothing
// deletes the first.
//
// With -corrected it finds the config map that it created by a label.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

const (
	finalizer = "sim.steersman.dev/cleanup"
	label     = "sim.steersman.dev/shop"
)

var kind = schema.GroupVersionKind{Group: "sim.steersman.dev", Version: "v1", Kind: "Shop"}

type reconciler struct {
	client.Client
	// live bypasses the cache.
	live      client.Reader
	corrected bool
}

func (r *reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	shop := &unstructured.Unstructured{}
	shop.SetGroupVersionKind(kind)
	if err := r.Get(ctx, request.NamespacedName, shop); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if shop.GetDeletionTimestamp() != nil {
		return ctrl.Result{}, r.cleanUp(ctx, shop)
	}
	if controllerutil.AddFinalizer(shop, finalizer) {
		if err := r.Update(ctx, shop); err != nil {
			return ctrl.Result{}, err
		}
	}
	name, err := r.settings(ctx, shop)
	if err != nil {
		return ctrl.Result{}, err
	}
	size, _, _ := unstructured.NestedInt64(shop.Object, "spec", "size")
	settings := &corev1.ConfigMap{}
	settings.Namespace, settings.Name = shop.GetNamespace(), name
	if name == "" {
		settings.GenerateName = shop.GetName() + "-"
		settings.Labels = map[string]string{label: shop.GetName()}
		settings.Data = map[string]string{"size": fmt.Sprint(size)}
		if err := r.Create(ctx, settings); err != nil {
			return ctrl.Result{}, err
		}
	} else {
		if err := r.live.Get(ctx, client.ObjectKeyFromObject(settings), settings); err != nil {
			return ctrl.Result{}, err
		}
		if settings.Data["size"] != fmt.Sprint(size) {
			settings.Data = map[string]string{"size": fmt.Sprint(size)}
			if err := r.Update(ctx, settings); err != nil {
				return ctrl.Result{}, err
			}
		}
	}
	if known, _, _ := unstructured.NestedString(shop.Object, "status", "settings"); known == settings.Name {
		return ctrl.Result{}, nil
	}
	if err := unstructured.SetNestedField(shop.Object, settings.Name, "status", "settings"); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{}, r.Status().Update(ctx, shop)
}

// settings returns the name of the shop's config map, if it has one.
func (r *reconciler) settings(ctx context.Context, shop *unstructured.Unstructured) (string, error) {
	if !r.corrected {
		name, _, err := unstructured.NestedString(shop.Object, "status", "settings")
		return name, err
	}
	found := &corev1.ConfigMapList{}
	err := r.live.List(ctx, found, client.InNamespace(shop.GetNamespace()), client.MatchingLabels{label: shop.GetName()})
	if err != nil || len(found.Items) == 0 {
		return "", err
	}
	return found.Items[0].Name, nil
}

func (r *reconciler) cleanUp(ctx context.Context, shop *unstructured.Unstructured) error {
	if !controllerutil.ContainsFinalizer(shop, finalizer) {
		return nil
	}
	name, err := r.settings(ctx, shop)
	if err != nil {
		return err
	}
	if name != "" {
		settings := &corev1.ConfigMap{}
		settings.Namespace, settings.Name = shop.GetNamespace(), name
		if err := r.Delete(ctx, settings); client.IgnoreNotFound(err) != nil {
			return err
		}
	}
	controllerutil.RemoveFinalizer(shop, finalizer)
	return client.IgnoreNotFound(r.Update(ctx, shop))
}

func main() {
	corrected := flag.Bool("corrected", false, "find what was made by its label")
	flag.Parse()
	ctrl.SetLogger(zap.New())
	manager, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{Metrics: metricsserver.Options{BindAddress: "0"}})
	must(err)
	shop := &unstructured.Unstructured{}
	shop.SetGroupVersionKind(kind)
	must(ctrl.NewControllerManagedBy(manager).Named("shop").For(shop).
		Complete(&reconciler{manager.GetClient(), manager.GetAPIReader(), *corrected}))
	must(manager.Start(ctrl.SetupSignalHandler()))
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
