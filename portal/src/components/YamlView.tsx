import { useMemo } from "react";
import type { K8sObject } from "../api/types";
import { toYaml } from "../lib/yaml";
import { YamlEditor } from "./YamlEditor";

/** Read-only YAML of an object. */
export function YamlView({ object }: { object: K8sObject }) {
  const text = useMemo(() => toYaml(object), [object]);
  return <YamlEditor value={text} label="YAML of the object" readOnly />;
}
