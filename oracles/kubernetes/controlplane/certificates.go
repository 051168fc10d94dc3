package main

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// authority signs the certificates in one directory.
type authority struct {
	dir  string
	cert *x509.Certificate
	key  crypto.Signer
}

func newAuthority(dir, name string) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber:          serial(),
		Subject:               pkix.Name{CommonName: name},
		NotBefore:             time.Now().Add(-time.Minute),
		NotAfter:              time.Now().AddDate(1, 0, 0),
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	if err := writePair(dir, name, der, key); err != nil {
		return nil, err
	}
	return &authority{dir: dir, cert: cert, key: key}, nil
}

// issue writes NAME.crt and NAME.key; without hosts the certificate is a client certificate.
func (a *authority) issue(name, commonName string, groups, hosts []string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template := &x509.Certificate{
		SerialNumber: serial(),
		Subject:      pkix.Name{CommonName: commonName, Organization: groups},
		NotBefore:    time.Now().Add(-time.Minute),
		NotAfter:     time.Now().AddDate(1, 0, 0),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	for _, host := range hosts {
		template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return err
	}
	return writePair(a.dir, name, der, key)
}

func writePair(dir, name string, der []byte, key *ecdsa.PrivateKey) error {
	// SEC 1 rather than PKCS#8: the service account token signer reads no other EC form.
	private, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}
	if err := writePEM(filepath.Join(dir, name+".crt"), "CERTIFICATE", der); err != nil {
		return err
	}
	return writePEM(filepath.Join(dir, name+".key"), "EC PRIVATE KEY", private)
}

func writePEM(path, kind string, der []byte) error {
	return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}

// writeServiceAccountKeys writes sa.key and sa.pub.
func writeServiceAccountKeys(dir string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	private, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return err
	}
	if err := writePEM(filepath.Join(dir, "sa.key"), "EC PRIVATE KEY", private); err != nil {
		return err
	}
	return writePEM(filepath.Join(dir, "sa.pub"), "PUBLIC KEY", public)
}

// writePKI creates the keys and certificates with which the components authenticate each other. The tokens are further
// lines of the token file, one user each.
func writePKI(dir string, tokens []string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	ca, err := newAuthority(dir, "ca")
	if err != nil {
		return err
	}
	hosts := []string{
		"127.0.0.1", "::1", "localhost", serviceIP, advertised, "kubernetes", "kubernetes.default",
		"kubernetes.default.svc", "kubernetes.default.svc.cluster.local",
	}
	clients := []struct {
		file, user string
		groups     []string
	}{
		{"admin", "kubernetes-admin", []string{"system:masters"}},
		{"controller-manager", "system:kube-controller-manager", nil},
		{"scheduler", "system:kube-scheduler", nil},
		{"kwok", "kwok-controller", []string{"system:masters"}},
		{"kubelet-client", "kube-apiserver-kubelet-client", []string{"system:masters"}},
	}
	if err := ca.issue("apiserver", "kube-apiserver", nil, hosts); err != nil {
		return err
	}
	for _, client := range clients {
		if err := ca.issue(client.file, client.user, client.groups, nil); err != nil {
			return err
		}
	}
	proxy, err := newAuthority(dir, "front-proxy-ca")
	if err != nil {
		return err
	}
	if err := proxy.issue("front-proxy-client", "front-proxy-client", nil, nil); err != nil {
		return err
	}
	token := make([]byte, 16)
	rand.Read(token)
	// A bearer token in addition to the certificate: curl and simple clients need no key material.
	lines := append([]string{hex.EncodeToString(token) + ",kubernetes-admin,kubernetes-admin,system:masters"}, tokens...)
	if err := os.WriteFile(filepath.Join(dir, "tokens.csv"), []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "admin.token"), []byte(hex.EncodeToString(token)), 0o600); err != nil {
		return err
	}
	return writeServiceAccountKeys(dir)
}

func writeKubeconfig(path, pki, client, server string) error {
	var encoded [3]string
	for i, name := range []string{"ca.crt", client + ".crt", client + ".key"} {
		bytes, err := os.ReadFile(filepath.Join(pki, name))
		if err != nil {
			return err
		}
		encoded[i] = base64.StdEncoding.EncodeToString(bytes)
	}
	text := fmt.Sprintf(`apiVersion: v1
kind: Config
current-context: oracle
contexts:
- name: oracle
  context: {cluster: oracle, user: %[1]s}
clusters:
- name: oracle
  cluster:
    server: %[2]s
    certificate-authority-data: %[3]s
users:
- name: %[1]s
  user:
    client-certificate-data: %[4]s
    client-key-data: %[5]s
`, client, server, encoded[0], encoded[1], encoded[2])
	return os.WriteFile(path, []byte(text), 0o600)
}

func serial() *big.Int {
	n, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		panic(err)
	}
	return n
}
