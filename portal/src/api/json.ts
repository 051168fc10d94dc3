/** Any JSON value, as found in Kubernetes objects. */
export type Json = string | number | boolean | null | Json[] | { [key: string]: Json | undefined };

/** A JSON object. */
export type JsonObject = { [key: string]: Json | undefined };

/** Object metadata, with the fields that the portal reads. */
export interface Metadata {
  [key: string]: Json | undefined;
  name?: string;
  namespace?: string;
  resourceVersion?: string;
  uid?: string;
  generation?: number;
  creationTimestamp?: string;
  deletionTimestamp?: string;
  labels?: Record<string, string>;
  annotations?: Record<string, string>;
}

/** A Kubernetes object. */
export type K8sObject = JsonObject & { apiVersion?: string; kind?: string; metadata: Metadata };
