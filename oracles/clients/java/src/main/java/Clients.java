import io.fabric8.kubernetes.api.model.ConfigMap;
import io.fabric8.kubernetes.api.model.ConfigMapBuilder;
import io.fabric8.kubernetes.api.model.NamespaceBuilder;
import io.fabric8.kubernetes.api.model.PodBuilder;
import io.fabric8.kubernetes.api.model.ServiceAccountBuilder;
import io.fabric8.kubernetes.api.model.authentication.TokenRequestBuilder;
import io.fabric8.kubernetes.client.KubernetesClient;
import io.fabric8.kubernetes.client.KubernetesClientBuilder;
import io.fabric8.kubernetes.client.KubernetesClientException;
import io.fabric8.kubernetes.client.Watcher;
import io.fabric8.kubernetes.client.WatcherException;
import io.fabric8.kubernetes.client.dsl.base.PatchContext;
import io.fabric8.kubernetes.client.dsl.base.PatchType;
import io.fabric8.kubernetes.client.informers.ResourceEventHandler;
import java.util.TreeMap;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/** Prints what fabric8's client sees of a cluster: lists, watches, informers, patches, eviction, tokens. */
public final class Clients {
  private static final String NAMESPACE = "clients-java";
  private static final BlockingQueue<String> EVENTS = new LinkedBlockingQueue<>();

  private static void next(String what) throws InterruptedException {
    String event = EVENTS.poll(10, TimeUnit.SECONDS);
    System.out.println(what + " " + (event == null ? "nothing" : event));
  }

  private static String reason(Runnable call) {
    try {
      call.run();
      return "none";
    } catch (KubernetesClientException error) {
      return error.getCode() + " " + (error.getStatus() == null ? "" : error.getStatus().getReason());
    }
  }

  private static ConfigMap map(String name) {
    return new ConfigMapBuilder().withNewMetadata().withName(name).addToLabels("seen", "yes").endMetadata()
        .addToData("k", "v").build();
  }

  public static void main(String[] arguments) throws Exception {
    try (KubernetesClient client = new KubernetesClientBuilder().build()) {
      client.namespaces().resource(new NamespaceBuilder().withNewMetadata().withName(NAMESPACE).endMetadata().build()).create();
      try {
        run(client);
      } finally {
        client.namespaces().withName(NAMESPACE).delete();
      }
    }
    System.exit(0);
  }

  private static void run(KubernetesClient client) throws Exception {
    var maps = client.configMaps().inNamespace(NAMESPACE);
    var informer = maps.withLabel("seen", "yes").inform(new ResourceEventHandler<ConfigMap>() {
      public void onAdd(ConfigMap object) {
        EVENTS.add("added " + object.getMetadata().getName());
      }

      public void onUpdate(ConfigMap old, ConfigMap object) {
        EVENTS.add("updated " + new TreeMap<>(object.getData()));
      }

      public void onDelete(ConfigMap object, boolean unknown) {
        EVENTS.add("deleted " + object.getMetadata().getName());
      }
    });
    maps.resource(map("a")).create();
    next("informer:");
    maps.withName("a").patch(PatchContext.of(PatchType.JSON_MERGE), "{\"data\":{\"merge\":\"1\"}}");
    next("merge:");
    maps.withName("a").patch(PatchContext.of(PatchType.STRATEGIC_MERGE), "{\"data\":{\"strategic\":\"1\",\"k\":null}}");
    next("strategic:");
    maps.withName("a").patch(PatchContext.of(PatchType.JSON), "[{\"op\":\"add\",\"path\":\"/data/json\",\"value\":\"1\"}]");
    next("json:");
    maps.resource(new ConfigMapBuilder().withNewMetadata().withName("a").endMetadata().addToData("apply", "1").build())
        .fieldManager("clients").forceConflicts().serverSideApply();
    next("apply:");
    BlockingQueue<String> watched = new LinkedBlockingQueue<>();
    try (var watch = maps.withName("a").watch(new Watcher<ConfigMap>() {
      public void eventReceived(Action action, ConfigMap object) {
        watched.add(action + " " + object.getMetadata().getName());
      }

      public void onClose(WatcherException cause) {}
    })) {
      System.out.println("watch: " + watched.poll(10, TimeUnit.SECONDS));
      maps.withName("a").delete();
      System.out.println("watch: " + watched.poll(10, TimeUnit.SECONDS));
    }
    next("informer:");
    informer.close();
    System.out.println("gone: " + maps.withName("a").get());
    for (int index = 0; index < 5; index++) {
      maps.resource(map("m" + index)).create();
    }
    System.out.println("list: " + maps.withLabel("seen", "yes").list().getItems().stream().map(m -> m.getMetadata().getName()).toList());
    client.serviceAccounts().inNamespace(NAMESPACE)
        .resource(new ServiceAccountBuilder().withNewMetadata().withName("robot").endMetadata().build()).create();
    var token = client.serviceAccounts().inNamespace(NAMESPACE).withName("robot")
        .tokenRequest(new TokenRequestBuilder().withNewSpec().withExpirationSeconds(600L).endSpec().build());
    System.out.println("token: " + token.getStatus().getToken().split("\\.").length + " parts");
    client.pods().inNamespace(NAMESPACE).resource(new PodBuilder().withNewMetadata().withName("p").endMetadata()
        .withNewSpec().withServiceAccountName("robot").addNewContainer().withName("c").withImage("i").endContainer().endSpec().build()).create();
    System.out.println("eviction: " + client.pods().inNamespace(NAMESPACE).withName("p").evict());
    System.out.println("eviction of none: " + reason(() -> client.pods().inNamespace(NAMESPACE).withName("q").evict()));
    System.out.println("twice: " + reason(() -> maps.resource(map("m0")).create()));
  }
}
