package clients

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// step is one call of kubectl: its arguments and patterns that its output must match. "!" before a pattern forbids it; fails says that
// the call must fail, with the patterns in its complaint.
type step struct {
	args  string
	in    string
	want  []string
	fails bool
}

// walk makes the steps one after the other. Arguments are split at blanks, but for those in single quotes.
func (u *user) walk(steps ...step) {
	u.t.Helper()
	for _, s := range steps {
		args := split(s.args)
		out, err := u.try(s.in, args...)
		if (err != nil) != s.fails {
			u.t.Fatalf("kubectl %s: %v\n%s", s.args, err, out)
		}
		if err != nil {
			out += err.Error()
		}
		for _, pattern := range s.want {
			pattern, forbidden := strings.CutPrefix(pattern, "!")
			if regexp.MustCompile(pattern).MatchString(out) == forbidden {
				u.t.Errorf("kubectl %s: want %v of %q in\n%s", s.args, !forbidden, pattern, out)
			}
		}
	}
}

func split(line string) (args []string) {
	for n, part := range strings.Split(line, "'") {
		if n%2 == 1 {
			args = append(args, part)
			continue
		}
		args = append(args, strings.Fields(part)...)
	}
	return args
}

func TestKubectlCreates(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	ns := u.namespace
	u.walk(
		step{args: "create deployment web --image=nginx:1.9.1 --replicas=2", want: []string{`deployment.apps/web created`}},
		step{args: "create deployment web --image=nginx", fails: true, want: []string{`deployments.apps "web" already exists`}},
		step{args: "create service clusterip web --tcp=80"}, step{args: "create service nodeport open --tcp=80"},
		step{args: "create service loadbalancer balanced --tcp=80"}, step{args: "create service externalname away --external-name=x.example.com"},
		step{args: "create configmap settings --from-literal=a=b"}, step{args: "create secret generic key --from-literal=a=b"},
		step{args: "create secret docker-registry login --docker-username=u --docker-password=p"}, step{args: "create serviceaccount robot"},
		step{args: "create role reader --verb=get --resource=pods,deployments.apps"}, step{args: "create rolebinding readers --role=reader --serviceaccount=" + ns + ":robot"},
		step{args: "create clusterrole " + ns + " --verb=get --resource=nodes"}, step{args: "create clusterrolebinding " + ns + " --clusterrole=" + ns + " --user=x"},
		step{args: "create job once --image=busybox"}, step{args: "create job again --from=cronjob/often", fails: true, want: []string{"NotFound"}},
		step{args: "create cronjob often --image=busybox '--schedule=0 * * * *'"}, step{args: "create job again --from=cronjob/often"},
		step{args: "create ingress front --rule=shop.example/=web:80"}, step{args: "create quota few --hard=pods=20"},
		step{args: "create poddisruptionbudget one --selector=app=web --min-available=1"}, step{args: "create priorityclass " + ns + " --value=10"},
		step{args: "create token robot --duration=10m", want: []string{`^[\w-]+\.[\w-]+\.[\w-]+\s*$`}},
		step{args: "expose deployment web --name=also --port=80", want: []string{"service/also exposed"}},
		step{args: "autoscale deployment web --min=1 --max=3 --cpu=80%", want: []string{"horizontalpodautoscaler.autoscaling/web autoscaled"}},
		step{args: "run alone --image=nginx --labels=x=y", want: []string{"pod/alone created"}},
		step{args: "create configmap dry --from-literal=a=b --dry-run=server -o yaml", want: []string{"name: dry", "!resourceVersion"}},
		step{args: "get configmap dry", fails: true, want: []string{`configmaps "dry" not found`}},
		step{args: "create -f - --validate=strict", fails: true, want: []string{"strict decoding error: unknown field \"dta\""},
			in: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"wrong"},"dta":{}}`},
		step{args: "auth can-i get pods --as=system:serviceaccount:" + ns + ":robot", want: []string{"^yes"}},
		step{args: "auth can-i delete pods --as=system:serviceaccount:" + ns + ":robot", fails: true, want: []string{"^no"}},
		step{args: "auth can-i --list", want: []string{`\*\.\*\s+\[\]\s+\[\]\s+\[\*\]`}},
		step{args: "auth whoami -o jsonpath={.status.userInfo.username}", want: []string{"^kubernetes-admin$"}},
		step{args: "delete clusterrole,clusterrolebinding,priorityclass " + ns},
	)
}

func TestKubectlGets(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	u.walk(
		step{args: "create deployment web --image=nginx:1.9.1 --replicas=3"},
		step{args: "rollout status deployment/web --timeout=80s", want: []string{`deployment "web" successfully rolled out`}},
	)
	u.await("the event", func() bool {
		out, _ := u.try("", "events", "--for=deployment/web")
		return strings.Contains(out, "ScalingReplicaSet")
	})
	u.walk(
		step{args: "get pods", want: []string{`^NAME\s+READY\s+STATUS\s+RESTARTS\s+AGE`, `web-\w+-\w{5}\s+1/1\s+Running\s+0`}},
		step{args: "get pods -o wide --show-labels", want: []string{`IP\s+NODE\s+NOMINATED NODE\s+READINESS GATES\s+LABELS`, `hollow-000\d\s+<none>\s+<none>\s+app=web,pod-template-hash=`}},
		step{args: "get pods -L app", want: []string{`APP\n.*web\n`}},
		step{args: "get deployment web -o wide", want: []string{`CONTAINERS\s+IMAGES\s+SELECTOR`, `web\s+3/3\s+3\s+3\s+\S+\s+nginx\s+nginx:1.9.1\s+app=web`}},
		step{args: "get pods --sort-by=.metadata.name -o custom-columns=NAME:.metadata.name,PHASE:.status.phase", want: []string{`^NAME\s+PHASE\n(web-\S+\s+Running\n){3}$`}},
		step{args: "get pods -o jsonpath={.items[*].spec.containers[0].image}", want: []string{`^nginx:1.9.1 nginx:1.9.1 nginx:1.9.1$`}},
		step{args: "get pods -o 'go-template={{range .items}}{{.kind}} {{end}}'", want: []string{`^Pod Pod Pod $`}},
		step{args: "get pods --field-selector=status.phase=Running,spec.restartPolicy=Always -o name", want: []string{`^(pod/web-\S+\n){3}$`}},
		step{args: "get pods --field-selector=spec.nodeName=nowhere", want: []string{`No resources found`}},
		step{args: "get pods -l 'app in (web),x notin (y)' --chunk-size=1 -o name", want: []string{`^(pod/web-\S+\n){3}$`}},
		step{args: "get pods,deployments.apps,rs,endpointslices", want: []string{`pod/web-`, `deployment.apps/web`, `replicaset.apps/web-`}},
		step{args: "get all", want: []string{`deployment.apps/web\s+3/3`}},
		step{args: "get deployment web --subresource=scale -o jsonpath={.kind}/{.spec.replicas}/{.status.selector}", want: []string{`^Scale/3/app=web$`}},
		step{args: "get deployment web -o yaml --show-managed-fields", want: []string{`manager: kubectl-create`, `manager: kube-controller-manager`, `subresource: status`}},
		step{args: "events --for=deployment/web", want: []string{`ScalingReplicaSet\s+Deployment/web\s+Scaled up replica set web-\S+ (from 0 )?to 3`}},
		step{args: "describe deployment web", want: []string{`Replicas:\s+3 desired \| 3 updated \| 3 total \| 3 available \| 0 unavailable`, `NewReplicaSet:\s+web-`}},
		step{args: "describe node hollow-0000", want: []string{`Allocated resources:`, `Ready\s+True`}},
		step{args: "get nothing", fails: true, want: []string{`the server doesn't have a resource type "nothing"`}},
		step{args: "get pods -l 'a in'", fails: true, want: []string{`unable to parse requirement|found '', expected`}},
		step{args: "explain deployment.spec.strategy", want: []string{`GROUP:\s+apps`, `KIND:\s+Deployment`, `FIELD: strategy <DeploymentStrategy>`, `rollingUpdate`}},
		step{args: "explain pods --recursive --api-version=v1 -o plaintext-openapiv2", want: []string{`activeDeadlineSeconds`}},
		step{args: "api-versions", want: []string{`(?m)^apps/v1$`, `(?m)^v1$`}},
		step{args: "api-resources --namespaced=false --verbs=list -o wide", want: []string{`nodes\s+no\s+v1\s+false\s+Node\s+create,delete,deletecollection,get,list,patch,update,watch`}},
		step{args: "cluster-info", want: []string{"Kubernetes control plane.*is running at.*https://127.0.0.1"}},
		step{args: "version -o json", want: []string{`"serverVersion"`, `"minor": "36"`}},
		step{args: "config view --minify -o jsonpath={.clusters[0].name}", want: []string{`^howdah$`}},
		step{args: "config current-context", want: []string{`^howdah\n`}},
		step{args: "completion bash", want: []string{`__start_kubectl`}},
		step{args: "__complete get deployments --namespace=" + u.namespace + " ''", want: []string{`(?m)^web$`}},
	)
}

const settings = `apiVersion: v1
kind: ConfigMap
metadata: {name: %s, labels: {of: shop}}
data: {color: %s}
`

func TestKubectlApplies(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	both := func(color string) string {
		return fmt.Sprintf(settings, "one", color) + "---\n" + fmt.Sprintf(settings, "two", color)
	}
	u.walk(
		step{args: "apply -f -", in: both("red"), want: []string{`configmap/one created\nconfigmap/two created`}},
		step{args: "apply -f -", in: both("red"), want: []string{`configmap/one unchanged\nconfigmap/two unchanged`}},
		step{args: "diff -f -", in: both("red"), want: []string{`^$`}},
		step{args: "diff -f -", in: both("blue"), fails: true, want: []string{`-  color: red\n\+  color: blue`}},
		step{args: "diff --server-side --force-conflicts -f -", in: both("blue"), fails: true, want: []string{`-  color: red\n\+  color: blue`}},
		step{args: "apply -f - --dry-run=server", in: both("blue"), want: []string{`configmap/one configured \(server dry run\)`}},
		step{args: "apply -f -", in: both("blue"), want: []string{`configmap/one configured`}},
		step{args: "apply view-last-applied configmap one", want: []string{`color: blue`}},
		step{args: "apply -f - --prune -l of=shop --prune-allowlist=core/v1/ConfigMap", in: fmt.Sprintf(settings, "one", "blue"), want: []string{`configmap/one unchanged`, `configmap/two pruned`}},
		step{args: "apply --server-side -f -", in: fmt.Sprintf(settings, "one", "blue"), want: []string{`configmap/one serverside-applied`}},
		step{args: "apply --server-side -f - --field-manager=other", in: fmt.Sprintf(settings, "one", "green"), fails: true,
			want: []string{`Apply failed with 1 conflict: conflict with "kubectl".*: .data.color`}},
		step{args: "apply --server-side -f - --field-manager=other --force-conflicts", in: fmt.Sprintf(settings, "one", "green"), want: []string{`serverside-applied`}},
		step{args: "get configmap one -o jsonpath={.data.color}", want: []string{"^green$"}},
		step{args: "replace -f -", in: fmt.Sprintf(settings, "one", "black"), want: []string{`configmap/one replaced`}},
		step{args: "replace --force -f -", in: fmt.Sprintf(settings, "one", "white"), want: []string{`configmap "one" deleted`, `configmap/one replaced`}},
		step{args: "label configmap one x=y", want: []string{`configmap/one labeled`}}, step{args: "label configmap one x=z", fails: true, want: []string{`'x' already has a value`}},
		step{args: "label configmap one x=z --overwrite"}, step{args: "label configmap one x-", want: []string{`unlabeled`}},
		step{args: "annotate configmap one note=hello", want: []string{`annotated`}},
		step{args: `patch configmap one -p '{"data":{"b":"1"}}'`, want: []string{`patched`}},
		step{args: `patch configmap one --type=merge -p '{"data":{"b":"2"}}'`}, step{args: `patch configmap one --type=merge -p '{"data":{"b":"2"}}'`, want: []string{`patched \(no change\)`}},
		step{args: `patch configmap one --type=json -p '[{"op":"remove","path":"/data/b"}]'`},
		step{args: `patch configmap one --type=json -p '[{"op":"remove","path":"/data/b"}]'`, fails: true, want: []string{`the server rejected our request due to an error in our request|Unable to remove nonexistent key`}},
		step{args: "delete configmap one", want: []string{`configmap "one" deleted`}}, step{args: "delete configmap one --ignore-not-found"},
		step{args: "delete configmap one", fails: true, want: []string{`configmaps "one" not found`}},
	)
	folder := u.write("kustomization/kustomization.yaml", "resources: [one.yaml]\nnamePrefix: k-\nconfigMapGenerator: [{name: made, literals: [a=b]}]\n")
	u.write("kustomization/one.yaml", fmt.Sprintf(settings, "one", "red"))
	folder = strings.TrimSuffix(folder, "/kustomization.yaml")
	u.walk(
		step{args: "kustomize " + folder, want: []string{`name: k-one`, `name: k-made-`}},
		step{args: "apply -k " + folder, want: []string{`configmap/k-one created`}},
		step{args: "delete -k " + folder, want: []string{`configmap "k-one" deleted`}},
	)
}

func TestKubectlChangesWorkloads(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	u.walk(
		step{args: "create deployment web --image=nginx:1.9.1 --replicas=2"}, step{args: "create serviceaccount robot"}, step{args: "create service clusterip web --tcp=80"},
		step{args: "create role reader --verb=get --resource=pods"}, step{args: "create rolebinding readers --role=reader --user=x"},
		step{args: "wait --for=condition=Available deployment/web --timeout=80s", want: []string{"condition met"}},
		step{args: "set image deployment/web nginx=nginx:1.10", want: []string{"image updated"}}, step{args: "set env deployment/web A=B", want: []string{"env updated"}},
		step{args: "set resources deployment/web --limits=cpu=100m", want: []string{"resource requirements updated"}},
		step{args: "set serviceaccount deployment/web robot", want: []string{"serviceaccount updated"}},
		step{args: "set selector service web app=other", want: []string{"selector updated"}}, step{args: "set subject rolebinding readers --user=y", want: []string{"subjects updated"}},
		step{args: "rollout status deployment/web --timeout=80s", want: []string{"successfully rolled out"}},
		step{args: "rollout history deployment/web", want: []string{`REVISION\s+CHANGE-CAUSE\n1 `}},
		step{args: "rollout undo deployment/web --to-revision=1", want: []string{"rolled back"}},
		step{args: "rollout status deployment/web --timeout=80s", want: []string{"successfully rolled out"}},
		step{args: "get deployment web -o jsonpath={.spec.template.spec.containers[0].image}", want: []string{"^nginx:1.9.1$"}},
		step{args: "rollout pause deployment/web", want: []string{"paused"}}, step{args: "rollout resume deployment/web", want: []string{"resumed"}},
		step{args: "rollout restart deployment/web", want: []string{"restarted"}}, step{args: "rollout status deployment/web --timeout=80s"},
		step{args: "scale deployment/web --replicas=3 --current-replicas=2", want: []string{"scaled"}},
		step{args: `patch deployment web --subresource=scale --type=merge -p '{"spec":{"replicas":1}}'`, want: []string{"scale.autoscaling/web patched"}},
		step{args: "rollout status deployment/web --timeout=80s"},
		step{args: "run alone --image=nginx"}, step{args: "wait --for=jsonpath={.status.phase}=Running pod/alone --timeout=80s", want: []string{"condition met"}},
		step{args: "debug alone --image=busybox --container=look -- sleep 1"},
		step{args: "get pod alone -o jsonpath={.spec.ephemeralContainers[*].name}", want: []string{"^look$"}},
		step{args: "debug alone --copy-to=copy --image=busybox --container=look -- sleep 1"}, step{args: "get pod copy -o jsonpath={.spec.containers[*].name}", want: []string{"alone.*look|look.*alone"}},
		step{args: "delete pod alone --wait --timeout=80s", want: []string{`pod "alone" deleted`}}, step{args: "wait --for=delete pod/alone --timeout=80s"},
		step{args: "delete deployment web --cascade=foreground --timeout=80s"},
		step{args: "wait --for=delete pod -l app=web --timeout=80s"}, step{args: "wait --for=create configmap/kube-root-ca.crt --timeout=80s", want: []string{"condition met"}},
		step{args: "delete pods --all --timeout=80s"},
	)
}

// TestKubectlDrains takes a node that other tests use too for a moment. Pods of theirs are left alone: the selector names its own.
func TestKubectlDrains(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	const node = "hollow-0002"
	u.walk(
		step{args: "taint node " + node + " clients=test:PreferNoSchedule", want: []string{"tainted"}}, step{args: "taint node " + node + " clients-", want: []string{"untainted"}},
		step{args: "create deployment drained --image=nginx --replicas=4"}, step{args: "rollout status deployment/drained --timeout=80s"},
		step{args: "drain " + node + " --pod-selector=app=drained --force --ignore-daemonsets --timeout=80s", want: []string{`node/` + node + ` drained`}},
		step{args: "get node " + node, want: []string{"Ready,SchedulingDisabled"}},
		step{args: "uncordon " + node, want: []string{"uncordoned"}},
		step{args: "rollout status deployment/drained --timeout=80s"},
	)
}

func TestKubectlCertificates(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: "clients-test"}}, key)
	if err != nil {
		t.Fatal(err)
	}
	request := base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}))
	manifest := func(name string) string {
		return fmt.Sprintf("apiVersion: certificates.k8s.io/v1\nkind: CertificateSigningRequest\nmetadata: {name: %s}\nspec: {request: %s, signerName: kubernetes.io/kube-apiserver-client, usages: [client auth]}\n", name, request)
	}
	u.walk(
		step{args: "create -f -", in: manifest("clients-yes") + "---\n" + manifest("clients-no")},
		step{args: "get csr clients-yes", want: []string{`REQUESTOR\s+REQUESTEDDURATION\s+CONDITION`, `kubernetes.io/kube-apiserver-client\s+kubernetes-admin\s+<none>\s+Pending`}},
		step{args: "certificate approve clients-yes", want: []string{"approved"}}, step{args: "certificate deny clients-no", want: []string{"denied"}},
		step{args: "wait csr/clients-yes --for=jsonpath={.status.certificate}"},
		step{args: "get csr clients-yes clients-no", want: []string{`clients-yes.*Approved,Issued`, `clients-no.*Denied`}},
	)
	// Whoever holds the key and the certificate is who the request named.
	issued, err := base64.StdEncoding.DecodeString(u.must("get", "csr", "clients-yes", "-o", "jsonpath={.status.certificate}"))
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	none, certFile, keyFile := filepath.Join(u.home, "none"), filepath.Join(u.home, "tls.crt"), filepath.Join(u.home, "tls.key")
	for path, content := range map[string][]byte{none: nil, certFile: issued, keyFile: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})} {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	u.walk(
		step{args: "auth whoami --kubeconfig " + none + " --insecure-skip-tls-verify --server https://" + u.c.Address + " --client-certificate " + certFile + " --client-key " + keyFile, want: []string{`Username\s+clients-test`}},
		step{args: "delete csr clients-yes clients-no"},
	)
}

func TestKubectlProxies(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, kubectl.bin(t), "--kubeconfig", u.c.Kubeconfig(), "proxy", "--port=0")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { cancel(); _ = cmd.Wait() }()
	line := make([]byte, 200)
	n, err := out.Read(line)
	found := regexp.MustCompile(`127\.0\.0\.1:\d+`).FindString(string(line[:n]))
	if err != nil || found == "" {
		t.Fatalf("%q, %v", line[:n], err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+found+"/api/v1/namespaces/"+u.namespace, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != 200 || !strings.Contains(string(body), `"kind":"Namespace"`) {
		t.Errorf("%d %s %v", resp.StatusCode, body, err)
	}
}
