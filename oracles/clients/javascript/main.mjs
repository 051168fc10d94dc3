// Prints what the JavaScript client sees of a cluster: lists, watches, informers, patches, eviction, tokens, and the refusal of exec.
import * as k8s from '@kubernetes/client-node';

const config = new k8s.KubeConfig();
config.loadFromFile(process.env.KUBECONFIG);
const core = config.makeApiClient(k8s.CoreV1Api);
const namespace = 'clients-js';

const reason = async (call) => {
  try {
    await call();
    return 'none';
  } catch (error) {
    const body = typeof error.body === 'string' ? JSON.parse(error.body) : error.body;
    return `${error.code} ${body?.reason} ${body?.message}`;
  }
};
const patch = (type, body, more = {}) =>
  core.patchNamespacedConfigMap({ name: 'a', namespace, body, ...more }, k8s.setHeaderOptions('Content-Type', type));

await core.createNamespace({ body: { metadata: { name: namespace } } });
try {
  const seen = [];
  let wake = () => {};
  const next = async (what) => {
    const deadline = setTimeout(() => { seen.push('nothing'); wake(); }, 10000);
    while (seen.length === 0) await new Promise((resolve) => { wake = resolve; });
    clearTimeout(deadline);
    console.log(what, seen.shift());
  };
  const path = `/api/v1/namespaces/${namespace}/configmaps`;
  const list = () => core.listNamespacedConfigMap({ namespace, labelSelector: 'seen=yes' });
  const informer = k8s.makeInformer(config, path, list, 'seen=yes');
  for (const event of ['add', 'update', 'delete']) {
    informer.on(event, (object) => { seen.push(`${event} ${JSON.stringify(object.data)}`); wake(); });
  }
  await informer.start();

  await core.createNamespacedConfigMap({ namespace, body: { metadata: { name: 'a', labels: { seen: 'yes' } }, data: { k: 'v' } } });
  await next('informer:');
  await patch(k8s.PatchStrategy.MergePatch, { data: { merge: '1' } });
  await next('merge:');
  await patch(k8s.PatchStrategy.StrategicMergePatch, { data: { strategic: '1', k: null } });
  await next('strategic:');
  await patch(k8s.PatchStrategy.JsonPatch, [{ op: 'add', path: '/data/json', value: '1' }]);
  await next('json:');
  const applied = await patch(k8s.PatchStrategy.ServerSideApply,
    { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'a' }, data: { apply: '1' } }, { fieldManager: 'clients', force: true });
  await next('apply:');
  console.log('managers:', applied.metadata.managedFields.map((entry) => entry.operation).sort());
  console.log('a test that fails:', await reason(() => patch(k8s.PatchStrategy.JsonPatch, [{ op: 'test', path: '/metadata/name', value: 'b' }])));
  await core.deleteNamespacedConfigMap({ name: 'a', namespace });
  await next('informer:');
  await informer.stop();
  console.log('gone:', await reason(() => core.readNamespacedConfigMap({ name: 'a', namespace })));

  for (let i = 0; i < 5; i += 1) await core.createNamespacedConfigMap({ namespace, body: { metadata: { name: `m${i}` } } });
  const names = [];
  let page;
  do {
    page = await core.listNamespacedConfigMap({ namespace, limit: 2, _continue: page?.metadata._continue, fieldSelector: 'metadata.name!=kube-root-ca.crt' });
    names.push(...page.items.map((item) => item.metadata.name));
  } while (page.metadata._continue);
  console.log('pages:', names);

  await new Promise((resolve, reject) => {
    new k8s.Watch(config).watch(path, { fieldSelector: 'metadata.name=m1', timeoutSeconds: 1 },
      (type, object) => console.log('watch:', type, object.metadata.name), (error) => (error ? reject(error) : resolve())).catch(reject);
  });

  await core.createNamespacedServiceAccount({ namespace, body: { metadata: { name: 'robot' } } });
  await core.createNamespacedPod({ namespace, body: { metadata: { name: 'p' }, spec: { serviceAccountName: 'robot', containers: [{ name: 'c', image: 'i' }] } } });
  const token = await core.createNamespacedServiceAccountToken({ name: 'robot', namespace, body: { spec: { audiences: [], expirationSeconds: 600 } } });
  console.log('token:', token.status.token.split('.').length, 'parts');
  const own = new k8s.KubeConfig();
  own.loadFromClusterAndUser({ ...config.getCurrentCluster() }, { name: 'robot', token: token.status.token });
  console.log('refused:', await reason(() => own.makeApiClient(k8s.CoreV1Api).listNamespacedSecret({ namespace })));
  const executed = await new k8s.Exec(config).exec(namespace, 'p', 'c', ['true'], null, null, null, false).then(() => 'no', () => 'yes');
  console.log('exec is refused:', executed);
  console.log('eviction:', await reason(() => core.createNamespacedPodEviction({ name: 'p', namespace, body: { metadata: { name: 'p' } } })));
  console.log('eviction of none:', await reason(() => core.createNamespacedPodEviction({ name: 'q', namespace, body: { metadata: { name: 'q' } } })));
} finally {
  await core.deleteNamespace({ name: namespace });
}
process.exit(0);
