// Generates the types of the REST API from its OpenAPI description; with --check, fails if the file is out of date.
import { readFileSync, writeFileSync } from "node:fs";
import openapiTS, { astToString, type OpenAPI3 } from "openapi-typescript";
import ts from "typescript";

const FILE = "src/api/schema.d.ts";
/** Schemas for arbitrary JSON, and the portal's own types for them. */
const OWN_TYPES: Record<string, string> = { Value: "Json", Object: "K8sObject" };

const description = JSON.parse(readFileSync("openapi.json", "utf8")) as OpenAPI3;
const types = await openapiTS(description, {
  inject: 'import type { Json, K8sObject } from "./json";\n',
  transform: (_schema, { path }) => {
    const own = OWN_TYPES[path?.replace("#/components/schemas/", "") ?? ""];
    return own ? ts.factory.createTypeReferenceNode(own) : undefined;
  },
});
const text = `// Generated from openapi.json by \`npm run client\`: do not edit.\n\n${astToString(types)}`;
if (!process.argv.includes("--check")) {
  writeFileSync(FILE, text);
} else if (readFileSync(FILE, "utf8") !== text) {
  console.error(`portal/${FILE} is not what portal/openapi.json gives: make portal-client writes it`);
  process.exit(1);
}
