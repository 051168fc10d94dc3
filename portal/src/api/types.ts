// Names for the body types of the REST API, from its OpenAPI description.
import type { components } from "./schema";

export type { Json, JsonObject, K8sObject, Metadata } from "./json";

type Schemas = components["schemas"];

export type Access = Schemas["Access"];
export type Action = Schemas["Action"];
export type Allowed = Schemas["AccessDecision"];
export type AuditEntry = Schemas["AuditEntry"];
export type Change = Schemas["Change"];
export type ClusterEvent = Schemas["Event"];
export type Column = Schemas["Column"];
export type Comparison = Schemas["Comparison"];
export type Condition = Schemas["Condition"];
export type Diff = Schemas["Diff"];
export type Health = Schemas["Health"];
export type HealthStatus = Schemas["HealthStatus"];
export type InstanceList = Schemas["InstanceList"];
export type Item = Schemas["Item"];
export type Kind = Schemas["Kind"];
export type KindSummary = Schemas["KindSummary"];
export type Me = Schemas["Me"];
export type OperatorView = Schemas["OperatorView"];
export type Overview = Schemas["Overview"];
export type Problem = Schemas["Problem"];
export type Ref = Schemas["Ref"];
export type Revision = Schemas["Revision"];
export type StatusView = Schemas["StatusView"];
export type Tree = Schemas["Tree"];
export type TreeNode = Schemas["TreeNode"];
export type Verb = Exclude<keyof Access, "actions">;
