package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

const (
	serviceRange = "10.96.0.0/16"
	serviceIP    = "10.96.0.1"
	// The endpoint of the service "kubernetes" must not be a loopback address; this one is
	// reserved for documentation, and nothing ever connects to it.
	advertised = "192.0.2.1"
)

// up starts the control plane if it does not run, and waits until the API server is ready.
func up(opts options) error {
	if opts.fresh {
		if err := down(opts.dir, false); err != nil {
			return err
		}
	}
	if allAlive(opts.dir) {
		fmt.Println(filepath.Join(opts.dir, "kubeconfig"))
		return nil
	}
	if err := down(opts.dir, false); err != nil {
		return err
	}
	programs, err := programsFor(opts)
	if err != nil {
		return err
	}
	// A free port may be taken before a component listens on it: retry with other ports.
	for attempt := 1; ; attempt++ {
		err := upOnce(opts, programs)
		if err == nil {
			fmt.Println(filepath.Join(opts.dir, "kubeconfig"))
			return nil
		}
		taken := strings.Contains(err.Error(), "address already in use")
		if stopErr := down(opts.dir, true); stopErr != nil || !taken || attempt == 3 {
			return errors.Join(err, stopErr)
		}
	}
}

func upOnce(opts options, programs map[string]string) error {
	dir := opts.dir
	for _, sub := range []string{"log", "run"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o700); err != nil {
			return err
		}
	}
	pki := filepath.Join(dir, "pki")
	if err := writePKI(pki, opts.tokens); err != nil {
		return err
	}
	ports, err := freePorts(6)
	if err != nil {
		return err
	}
	server := fmt.Sprintf("https://127.0.0.1:%d", ports[2])
	for file, client := range map[string]string{
		"kubeconfig": "admin", "controller-manager.kubeconfig": "controller-manager",
		"scheduler.kubeconfig": "scheduler", "kwok.kubeconfig": "kwok",
	} {
		if err := writeKubeconfig(filepath.Join(dir, file), pki, client, server); err != nil {
			return err
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "server"), []byte(server), 0o600); err != nil {
		return err
	}
	authentication := filepath.Join(dir, "authentication.yaml")
	if err := os.WriteFile(authentication, []byte(noIssuers), 0o600); err != nil {
		return err
	}

	etcdClient := fmt.Sprintf("http://127.0.0.1:%d", ports[0])
	etcdPeer := fmt.Sprintf("http://127.0.0.1:%d", ports[1])
	etcd, err := start(dir, "etcd", programs["etcd"],
		"--name=oracle", "--data-dir="+filepath.Join(dir, "etcd"), "--unsafe-no-fsync", "--log-level=error",
		"--listen-client-urls="+etcdClient, "--advertise-client-urls="+etcdClient,
		"--listen-peer-urls="+etcdPeer, "--initial-advertise-peer-urls="+etcdPeer,
		"--initial-cluster=oracle="+etcdPeer, "--initial-cluster-token=oracle",
	)
	if err != nil {
		return err
	}
	api, err := start(dir, "kube-apiserver", programs["kube-apiserver"], apiserverArgs(pki, authentication, etcdClient, ports[2])...)
	if err != nil {
		return err
	}
	client, err := newClient(pki, server)
	if err != nil {
		return err
	}
	if err := client.waitReady(60*time.Second, etcd, api); err != nil {
		return err
	}

	started := []*process{etcd, api}
	if opts.controllerManager {
		p, err := start(dir, "kube-controller-manager", programs["kube-controller-manager"],
			controllerManagerArgs(dir, pki, ports[3])...)
		if err != nil {
			return err
		}
		started = append(started, p)
	}
	if opts.scheduler {
		config := filepath.Join(dir, "scheduler.kubeconfig")
		p, err := start(dir, "kube-scheduler", programs["kube-scheduler"],
			"--kubeconfig="+config, "--authentication-kubeconfig="+config, "--authorization-kubeconfig="+config,
			"--leader-elect=false", "--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", ports[4]))
		if err != nil {
			return err
		}
		started = append(started, p)
	}
	if opts.kwok {
		p, err := startKwok(dir, programs["kwok"], ports[5])
		if err != nil {
			return err
		}
		started = append(started, p)
		for i := range opts.nodes {
			if err := client.createNode(fmt.Sprintf("node-%d", i)); err != nil {
				return err
			}
		}
	}
	if opts.controllerManager {
		// The default service account is the first sign of working controllers, and every pod needs it.
		if err := client.waitFor("/api/v1/namespaces/default/serviceaccounts/default", 60*time.Second, started...); err != nil {
			return err
		}
	}
	return nil
}

// noIssuers trusts no OpenID provider yet. The server reloads the file when it changes.
const noIssuers = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\n"

func apiserverArgs(pki, authentication, etcd string, port int) []string {
	file := func(name string) string { return filepath.Join(pki, name) }
	return []string{
		"--etcd-servers=" + etcd,
		"--bind-address=127.0.0.1",
		fmt.Sprintf("--secure-port=%d", port),
		"--advertise-address=" + advertised,
		"--service-cluster-ip-range=" + serviceRange,
		"--allow-privileged=true",
		"--authorization-mode=Node,RBAC",
		"--enable-admission-plugins=NodeRestriction",
		"--enable-bootstrap-token-auth=true",
		"--authentication-config=" + authentication,
		"--client-ca-file=" + file("ca.crt"),
		"--tls-cert-file=" + file("apiserver.crt"),
		"--tls-private-key-file=" + file("apiserver.key"),
		"--token-auth-file=" + file("tokens.csv"),
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-key-file=" + file("sa.pub"),
		"--service-account-signing-key-file=" + file("sa.key"),
		"--kubelet-client-certificate=" + file("kubelet-client.crt"),
		"--kubelet-client-key=" + file("kubelet-client.key"),
		"--requestheader-client-ca-file=" + file("front-proxy-ca.crt"),
		"--requestheader-allowed-names=front-proxy-client",
		"--requestheader-username-headers=X-Remote-User",
		"--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--proxy-client-cert-file=" + file("front-proxy-client.crt"),
		"--proxy-client-key-file=" + file("front-proxy-client.key"),
		"--profiling=false",
		// Only tests generate load; throttling would just slow them down.
		"--max-requests-inflight=4000",
		"--max-mutating-requests-inflight=2000",
	}
}

func controllerManagerArgs(dir, pki string, port int) []string {
	config := filepath.Join(dir, "controller-manager.kubeconfig")
	return []string{
		"--kubeconfig=" + config,
		"--authentication-kubeconfig=" + config,
		"--authorization-kubeconfig=" + config,
		"--bind-address=127.0.0.1",
		fmt.Sprintf("--secure-port=%d", port),
		"--leader-elect=false",
		"--use-service-account-credentials=true",
		"--controllers=*,bootstrap-signer-controller,token-cleaner-controller",
		"--service-account-private-key-file=" + filepath.Join(pki, "sa.key"),
		"--root-ca-file=" + filepath.Join(pki, "ca.crt"),
		"--cluster-signing-cert-file=" + filepath.Join(pki, "ca.crt"),
		"--cluster-signing-key-file=" + filepath.Join(pki, "ca.key"),
		"--requestheader-client-ca-file=" + filepath.Join(pki, "front-proxy-ca.crt"),
		"--service-cluster-ip-range=" + serviceRange,
	}
}

// startKwok runs kwok with the stages that its module ships.
func startKwok(dir, program string, port int) (*process, error) {
	module, err := kwokModule()
	if err != nil {
		return nil, err
	}
	var stages []string
	for _, glob := range []string{"node/fast/*.yaml", "node/heartbeat-with-lease/*.yaml", "pod/fast/*.yaml"} {
		found, err := filepath.Glob(filepath.Join(module, "kustomize", "stage", glob))
		if err != nil {
			return nil, err
		}
		stages = append(stages, found...)
	}
	args := []string{
		"--kubeconfig=" + filepath.Join(dir, "kwok.kubeconfig"),
		"--manage-all-nodes=true",
		"--node-lease-duration-seconds=40",
		fmt.Sprintf("--server-address=127.0.0.1:%d", port),
	}
	for _, stage := range stages {
		if filepath.Base(stage) != "kustomization.yaml" {
			args = append(args, "--config="+stage)
		}
	}
	return start(dir, "kwok", program, args...)
}

func down(dir string, keepLogs bool) error {
	var errs []error
	for i := len(startOrder) - 1; i >= 0; i-- {
		if p := find(dir, startOrder[i]); p != nil {
			errs = append(errs, p.stop())
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	made := []string{
		"etcd", "pki", "run", "server", "kubeconfig",
		"controller-manager.kubeconfig", "scheduler.kubeconfig", "kwok.kubeconfig",
	}
	if !keepLogs {
		made = append(made, "log")
	}
	for _, name := range made {
		if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	// Removes only an empty directory: other files in it belong to the caller.
	os.Remove(dir)
	return nil
}

func status(dir string) error {
	for _, name := range startOrder {
		if p := find(dir, name); p != nil {
			fmt.Printf("%-24s pid %d alive %t\n", name, p.pid, p.alive())
		}
	}
	if !allAlive(dir) {
		return errors.New("not running")
	}
	return nil
}

// allAlive reports whether every started component still runs, the API server among them.
func allAlive(dir string) bool {
	serving := false
	for _, name := range startOrder {
		p := find(dir, name)
		if p != nil && !p.alive() {
			return false
		}
		serving = serving || p != nil && name == "kube-apiserver"
	}
	return serving
}

func programsFor(opts options) (map[string]string, error) {
	names := []string{"etcd", "kube-apiserver"}
	if opts.controllerManager {
		names = append(names, "kube-controller-manager")
	}
	if opts.scheduler {
		names = append(names, "kube-scheduler")
	}
	if opts.kwok {
		names = append(names, "kwok")
	}
	build, err := buildScript()
	if err != nil {
		return nil, err
	}
	command := exec.Command(build, names...)
	command.Stderr = os.Stderr
	out, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", build, err)
	}
	paths := strings.Fields(string(out))
	if len(paths) != len(names) {
		return nil, fmt.Errorf("%s named %d programs instead of %d", build, len(paths), len(names))
	}
	programs := map[string]string{}
	for i, name := range names {
		programs[name] = paths[i]
	}
	return programs, nil
}

// buildScript returns the path of the build script, set by the wrapper script, which knows where the sources are.
func buildScript() (string, error) {
	if path := os.Getenv("STEERSMAN_ORACLE_BUILD"); path != "" {
		return path, nil
	}
	return "", errors.New("run this through the control-plane script: it sets STEERSMAN_ORACLE_BUILD")
}

func kwokModule() (string, error) {
	build, err := buildScript()
	if err != nil {
		return "", err
	}
	command := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/kwok")
	command.Dir = filepath.Join(filepath.Dir(build), "tools", "kwok")
	out, err := command.Output()
	return strings.TrimSpace(string(out)), err
}

func freePorts(n int) ([]int, error) {
	ports := make([]int, n)
	for i := range ports {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		// Held until all ports are chosen, so that none is chosen twice.
		defer listener.Close()
		ports[i] = listener.Addr().(*net.TCPAddr).Port
	}
	return ports, nil
}

// client sends requests to the API server as the administrator.
type client struct {
	http   *http.Client
	server string
}

func newClient(pki, server string) (*client, error) {
	pair, err := tls.LoadX509KeyPair(filepath.Join(pki, "admin.crt"), filepath.Join(pki, "admin.key"))
	if err != nil {
		return nil, err
	}
	ca, err := os.ReadFile(filepath.Join(pki, "ca.crt"))
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	transport := &http.Transport{TLSClientConfig: &tls.Config{
		RootCAs: roots, Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12,
	}}
	return &client{&http.Client{Transport: transport, Timeout: 5 * time.Second}, server}, nil
}

// waitReady waits for readiness and for the objects that start-up creates shortly after it.
func (c *client) waitReady(limit time.Duration, needed ...*process) error {
	for _, path := range []string{
		"/readyz", "/api/v1/namespaces/default", "/api/v1/namespaces/kube-node-lease",
		"/api/v1/namespaces/default/services/kubernetes", "/apis/rbac.authorization.k8s.io/v1/clusterroles/cluster-admin",
	} {
		if err := c.waitFor(path, limit, needed...); err != nil {
			return err
		}
	}
	return nil
}

// waitFor polls a path until it returns 200; it fails early if a needed process has exited.
func (c *client) waitFor(path string, limit time.Duration, needed ...*process) error {
	last := ""
	for deadline := time.Now().Add(limit); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		for _, p := range needed {
			if !p.alive() {
				return fmt.Errorf("%s ended:\n%s", p.name, logTail(p.dir, p.name))
			}
		}
		response, err := c.http.Get(c.server + path)
		if err != nil {
			last = err.Error()
			continue
		}
		body, _ := io.ReadAll(response.Body)
		response.Body.Close()
		if response.StatusCode == http.StatusOK {
			return nil
		}
		last = fmt.Sprintf("%d %s", response.StatusCode, body)
	}
	return fmt.Errorf("%s did not answer in %s: %s", path, limit, last)
}

func (c *client) createNode(name string) error {
	capacity := map[string]string{"cpu": "32", "memory": "256Gi", "pods": "110", "ephemeral-storage": "1Ti"}
	node := map[string]any{
		"apiVersion": "v1", "kind": "Node",
		"metadata": map[string]any{
			"name":        name,
			"labels":      map[string]string{"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64", "type": "kwok"},
			"annotations": map[string]string{"kwok.x-k8s.io/node": "fake", "node.alpha.kubernetes.io/ttl": "0"},
		},
		"status": map[string]any{"allocatable": capacity, "capacity": capacity},
	}
	body, err := json.Marshal(node)
	if err != nil {
		return err
	}
	response, err := c.http.Post(c.server+"/api/v1/nodes", "application/json", strings.NewReader(string(body)))
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusCreated && response.StatusCode != http.StatusConflict {
		text, _ := io.ReadAll(response.Body)
		return fmt.Errorf("creating node %s: %d %s", name, response.StatusCode, text)
	}
	return nil
}
