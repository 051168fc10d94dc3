// Command late-finalizer is an operator on Helm's packages that installs a release for each shop and adds its finalizer
// afterwards. A crash between the two leaves a release that is not uninstalled when its shop is deleted.
//
// With -corrected it adds the finalizer first.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/cli"
	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage/driver"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

const finalizer = "sim.steersman.dev/uninstall"

var kind = schema.GroupVersionKind{Group: "sim.steersman.dev", Version: "v1", Kind: "Shop"}

type reconciler struct {
	client.Client
	chart     string
	corrected bool
}

func (r *reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	shop := &unstructured.Unstructured{}
	shop.SetGroupVersionKind(kind)
	if err := r.Get(ctx, request.NamespacedName, shop); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	settings := cli.New()
	settings.SetNamespace(request.Namespace)
	helm := new(action.Configuration)
	if err := helm.Init(settings.RESTClientGetter(), request.Namespace, "secret", func(string, ...any) {}); err != nil {
		return ctrl.Result{}, err
	}
	if shop.GetDeletionTimestamp() != nil {
		return ctrl.Result{}, r.uninstall(ctx, shop, helm)
	}
	return ctrl.Result{}, r.install(ctx, shop, helm)
}

func (r *reconciler) install(ctx context.Context, shop *unstructured.Unstructured, helm *action.Configuration) error {
	if r.corrected {
		if err := r.addFinalizer(ctx, shop); err != nil {
			return err
		}
	}
	chart, err := loader.Load(r.chart)
	if err != nil {
		return err
	}
	values, _, err := unstructured.NestedMap(shop.Object, "spec")
	if err != nil {
		return err
	}
	deployed, err := latest(helm, shop.GetName())
	if err != nil {
		return err
	}
	if deployed == nil {
		install := action.NewInstall(helm)
		install.ReleaseName, install.Namespace = shop.GetName(), shop.GetNamespace()
		if _, err := install.Run(chart, values); err != nil {
			return err
		}
		return r.addFinalizer(ctx, shop)
	}
	try := action.NewUpgrade(helm)
	try.Namespace, try.DryRun = shop.GetNamespace(), true
	wanted, err := try.Run(shop.GetName(), chart, values)
	if err != nil || wanted.Manifest == deployed.Manifest {
		return err
	}
	upgrade := action.NewUpgrade(helm)
	upgrade.Namespace = shop.GetNamespace()
	_, err = upgrade.Run(shop.GetName(), chart, values)
	return err
}

func (r *reconciler) addFinalizer(ctx context.Context, shop *unstructured.Unstructured) error {
	if !controllerutil.AddFinalizer(shop, finalizer) {
		return nil
	}
	return r.Update(ctx, shop)
}

// latest returns the deployed release. It deletes the records of interrupted runs.
func latest(helm *action.Configuration, name string) (*release.Release, error) {
	history, err := helm.Releases.History(name)
	if err != nil && !errors.Is(err, driver.ErrReleaseNotFound) {
		return nil, err
	}
	var deployed *release.Release
	for _, one := range history {
		switch one.Info.Status {
		case release.StatusDeployed:
			deployed = one
		case release.StatusSuperseded:
		default:
			if _, err := helm.Releases.Delete(one.Name, one.Version); err != nil && !errors.Is(err, driver.ErrReleaseNotFound) {
				return nil, err
			}
		}
	}
	return deployed, nil
}

func (r *reconciler) uninstall(ctx context.Context, shop *unstructured.Unstructured, helm *action.Configuration) error {
	if !controllerutil.ContainsFinalizer(shop, finalizer) {
		return nil
	}
	if _, err := action.NewUninstall(helm).Run(shop.GetName()); err != nil && !errors.Is(err, driver.ErrReleaseNotFound) {
		return err
	}
	controllerutil.RemoveFinalizer(shop, finalizer)
	return client.IgnoreNotFound(r.Update(ctx, shop))
}

func main() {
	chart := flag.String("chart", "chart", "directory of the chart")
	corrected := flag.Bool("corrected", false, "add the finalizer first")
	flag.Parse()
	ctrl.SetLogger(zap.New())
	manager, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{Metrics: metricsserver.Options{BindAddress: "0"}})
	must(err)
	shop := &unstructured.Unstructured{}
	shop.SetGroupVersionKind(kind)
	must(ctrl.NewControllerManagedBy(manager).Named("shop").For(shop).
		Complete(&reconciler{manager.GetClient(), *chart, *corrected}))
	must(manager.Start(ctrl.SetupSignalHandler()))
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
