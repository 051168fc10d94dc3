/** Any JSON value, as objects of the cluster carry it. */
export type Json = string | number | boolean | null | Json[] | { [key: string]: Json | undefined };

/** A JSON object. */
export type JsonObject = { [key: string]: Json | undefined };

/** The metadata of an object, as far as the portal reads it. */
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

/** An object of the cluster. */
export type K8sObject = JsonObject & { apiVersion?: string; kind?: string; metadata: Metadata };
