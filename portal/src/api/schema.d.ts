// Generated from openapi.json by `npm run client`: do not edit.

import type { Json, K8sObject } from "./json";
export interface paths {
    "/v1/audit": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List audit entries */
        get: operations["audit"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/kinds": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List the cluster's kinds */
        get: operations["kinds"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/kinds/{kind}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Get a kind with its schema */
        get: operations["kind"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/kinds/{kind}/access": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Get the caller's permissions on a kind */
        get: operations["access"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/kinds/{kind}/instances": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List instances */
        get: operations["list-all"];
        put?: never;
        /** Create an instance */
        post: operations["create-any"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/kinds/{kind}/instances/{name}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Get an instance */
        get: operations["get-cluster-scoped"];
        /** Replace an instance */
        put: operations["replace-cluster-scoped"];
        post?: never;
        /** Delete an instance */
        delete: operations["delete-cluster-scoped"];
        options?: never;
        head?: never;
        /** Patch an instance */
        patch: operations["patch-cluster-scoped"];
        trace?: never;
    };
    "/v1/kinds/{kind}/instances/{name}/actions": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List the actions on an instance */
        get: operations["actions-cluster-scoped"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/kinds/{kind}/instances/{name}/actions/{action}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Run an action on an instance */
        post: operations["act-cluster-scoped"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/kinds/{kind}/instances/{name}/events": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List an instance's events */
        get: operations["events-cluster-scoped"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/kinds/{kind}/instances/{name}/history": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List an instance's revisions */
        get: operations["history-cluster-scoped"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/kinds/{kind}/instances/{name}/history/compare": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Compare two revisions of an instance */
        get: operations["history-compare-cluster-scoped"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/kinds/{kind}/instances/{name}/history/{revision}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Get a revision of an instance */
        get: operations["history-revision-cluster-scoped"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/kinds/{kind}/instances/{name}/logs": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Get the logs of an instance's pods */
        get: operations["logs-cluster-scoped"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/kinds/{kind}/instances/{name}/status": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Get an instance's health and conditions */
        get: operations["status-cluster-scoped"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/kinds/{kind}/instances/{name}/tree": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Get an instance's tree of owned objects */
        get: operations["tree-cluster-scoped"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/kinds/{kind}/namespaces/{namespace}/instances": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List instances */
        get: operations["list"];
        put?: never;
        /** Create an instance */
        post: operations["create"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/kinds/{kind}/namespaces/{namespace}/instances/{name}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Get an instance */
        get: operations["get"];
        /** Replace an instance */
        put: operations["replace"];
        post?: never;
        /** Delete an instance */
        delete: operations["delete"];
        options?: never;
        head?: never;
        /** Patch an instance */
        patch: operations["patch"];
        trace?: never;
    };
    "/v1/kinds/{kind}/namespaces/{namespace}/instances/{name}/actions": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List the actions on an instance */
        get: operations["actions"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/kinds/{kind}/namespaces/{namespace}/instances/{name}/actions/{action}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Run an action on an instance */
        post: operations["act"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/kinds/{kind}/namespaces/{namespace}/instances/{name}/events": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List an instance's events */
        get: operations["events"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/kinds/{kind}/namespaces/{namespace}/instances/{name}/history": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List an instance's revisions */
        get: operations["history"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/kinds/{kind}/namespaces/{namespace}/instances/{name}/history/compare": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Compare two revisions of an instance */
        get: operations["history-compare"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/kinds/{kind}/namespaces/{namespace}/instances/{name}/history/{revision}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Get a revision of an instance */
        get: operations["history-revision"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/kinds/{kind}/namespaces/{namespace}/instances/{name}/logs": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Get the logs of an instance's pods */
        get: operations["logs"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/kinds/{kind}/namespaces/{namespace}/instances/{name}/status": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Get an instance's health and conditions */
        get: operations["status"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/kinds/{kind}/namespaces/{namespace}/instances/{name}/tree": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Get an instance's tree of owned objects */
        get: operations["tree"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/me": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Get the caller's identity */
        get: operations["me"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/operator": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Get queues, reconciles and errors of the operators */
        get: operations["operator"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/overview": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Get the health of all instances */
        get: operations["overview"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/session": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List the ways to sign in besides a token */
        get: operations["sign-in-ways"];
        put?: never;
        /** Create a session from a cluster token */
        post: operations["sign-in"];
        /** End the session */
        delete: operations["sign-out"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/session/oidc": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Redirect to the OpenID provider */
        get: operations["oidc-sign-in"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/session/oidc/callback": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Handle the redirect from the OpenID provider */
        get: operations["oidc-callback"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
}
export type webhooks = Record<string, never>;
export interface components {
    schemas: {
        /** @description The caller's permissions, by verb. */
        Access: {
            actions: {
                [key: string]: components["schemas"]["AccessDecision"];
            };
            create: components["schemas"]["AccessDecision"];
            delete: components["schemas"]["AccessDecision"];
            get: components["schemas"]["AccessDecision"];
            history: components["schemas"]["AccessDecision"];
            list: components["schemas"]["AccessDecision"];
            logs: components["schemas"]["AccessDecision"];
            patch: components["schemas"]["AccessDecision"];
            update: components["schemas"]["AccessDecision"];
            watch: components["schemas"]["AccessDecision"];
        };
        AccessDecision: {
            allowed: boolean;
            /** @description Reason for a denial; empty if allowed */
            reason: string;
        };
        Action: {
            /** @description Warning to confirm before it runs */
            confirm: string | null;
            description: string;
            /** @description JSON schema of its value */
            input: {
                [key: string]: components["schemas"]["Value"];
            } | null;
            name: string;
            title: string;
            /** @description Path of the field that it sets */
            value: string | null;
        };
        Audit: {
            items: components["schemas"]["AuditEntry"][];
        };
        AuditEntry: {
            action: string;
            /** Format: date-time */
            at: string;
            changes: components["schemas"]["Change"][];
            groups: string[];
            id: number;
            reason: string;
            ref: components["schemas"]["Ref"] | null;
            remote: string;
            requestId: string;
            status: number;
            user: string;
            userAgent: string;
        };
        Change: {
            after: components["schemas"]["Value"];
            before: components["schemas"]["Value"];
            /** @enum {unknown} */
            op: "add" | "remove" | "replace";
            path: string;
        };
        Column: {
            description: string;
            format: string;
            jsonPath: string;
            name: string;
            priority: number;
            type: string;
        };
        Comparison: {
            changes: components["schemas"]["Change"][];
            from: number;
            /** @description null for the live object */
            to: number | null;
            /** @description Unified diff */
            yaml: string;
        };
        /** @description A condition as set by its operator. */
        Condition: {
            lastTransitionTime?: string;
            message?: string;
            reason?: string;
            status: string;
            type: string;
        } & {
            [key: string]: components["schemas"]["Value"];
        };
        /** @description The changes that a write would make. */
        Diff: {
            changes: components["schemas"]["Change"][];
            /** @constant */
            dryRun: true;
            /** @description Objects that would be deleted with it */
            follow: components["schemas"]["Ref"][];
            object: components["schemas"]["Object"] | null;
            /** @description Unified diff */
            yaml: string;
        };
        Event: {
            count: number;
            firstSeen: string | null;
            lastSeen: string | null;
            message: string;
            reason: string;
            ref: components["schemas"]["Ref"];
            source: string;
            type: string;
        };
        Events: {
            items: components["schemas"]["Event"][];
        };
        Health: {
            message: string;
            reason: string;
            since: string | null;
            status: components["schemas"]["HealthStatus"];
        };
        /** @enum {unknown} */
        HealthStatus: "ready" | "progressing" | "failing" | "paused" | "unknown";
        History: {
            items: components["schemas"]["Revision"][];
        };
        InstanceActions: {
            items: (components["schemas"]["Action"] & components["schemas"]["AccessDecision"])[];
        };
        InstanceList: {
            continue: string | null;
            items: components["schemas"]["Item"][];
            remaining: number | null;
            resourceVersion: string;
        };
        Item: {
            /** @description Values of the kind's columns */
            cells: components["schemas"]["Value"][];
            health: components["schemas"]["Health"];
            object: components["schemas"]["Object"];
        };
        Kind: {
            actions: components["schemas"]["Action"][];
            categories: string[];
            columns: components["schemas"]["Column"][];
            custom: boolean;
            description: string;
            group: string;
            kind: string;
            /** @description plural.group */
            name: string;
            namespaced: boolean;
            plural: string;
            /** @description Only in responses for a single kind */
            sample?: components["schemas"]["Object"] | null;
            /** @description Schema of the CRD; only in responses for a single kind */
            schema?: {
                [key: string]: components["schemas"]["Value"];
            } | null;
            shortNames: string[];
            singular: string;
            subresources: {
                scale: {
                    [key: string]: components["schemas"]["Value"];
                } | null;
                status: boolean;
            };
            verbs: string[];
            version: string;
            versions: string[];
        };
        KindSummary: {
            /** @description Reason why the caller may not list them */
            denied: string | null;
            /** @description Number of instances by health */
            health: {
                [key: string]: number;
            };
            kind: string;
            name: string;
            total: number | null;
        };
        Kinds: {
            items: components["schemas"]["Kind"][];
        };
        Me: {
            cluster: {
                name: string;
                version: string | null;
            };
            /** @description Only for sessions */
            csrfToken?: string;
            /**
             * Format: date-time
             * @description Only for sessions
             */
            expiresAt?: string;
            groups: string[];
            username: string;
            /** @enum {unknown} */
            via: "session" | "bearer";
        };
        /** @description A Kubernetes object. */
        Object: K8sObject;
        OperatorView: {
            log: {
                at: string;
                level: string;
                message: string;
            }[];
            operators: {
                kinds: string[];
                latency: {
                    p50: number;
                    p99: number;
                } | null;
                leader: boolean | null;
                name: string;
                /** @description Reason why its metrics cannot be read */
                problem: string | null;
                queue: {
                    depth: number;
                } | null;
                reconciles: {
                    error: number;
                    perMinute: number | null;
                    success: number;
                } | null;
                startedAt: string | null;
            }[];
        };
        Overview: {
            changes: components["schemas"]["AuditEntry"][];
            failing: {
                health: components["schemas"]["Health"];
                ref: components["schemas"]["Ref"];
            }[];
            kinds: components["schemas"]["KindSummary"][];
        };
        Problem: {
            causes: {
                field: string;
                message: string;
                reason: string;
            }[];
            /** @description The current object */
            current?: components["schemas"]["Object"] | null;
            detail: string;
            health?: components["schemas"]["Health"];
            reason: string;
            requestId: string;
            status: number;
            title: string;
            type: string;
        };
        Ref: {
            apiVersion?: string | null;
            /** @description plural.group; null if the kind is gone */
            kind: string | null;
            kindName: string;
            name: string;
            namespace?: string | null;
            uid?: string | null;
        };
        Revision: {
            /** Format: date-time */
            at: string;
            by: string;
            changes: components["schemas"]["Change"][];
            current: boolean;
            name: string;
            revision: number;
        };
        RevisionContent: {
            /** Format: date-time */
            at: string;
            by: string;
            object: {
                [key: string]: components["schemas"]["Value"];
            };
            revision: number;
        };
        SignInWays: {
            /** @description The OpenID provider, if configured */
            oidc: {
                issuer: string;
                /** @description Path that redirects to the provider */
                url: string;
            } | null;
        };
        StatusView: {
            conditions: components["schemas"]["Condition"][];
            generation: number | null;
            health: components["schemas"]["Health"];
            observedGeneration: number | null;
            status: components["schemas"]["Value"];
        };
        Tree: {
            /** @description Kinds that the caller may not list */
            denied: string[];
            root: components["schemas"]["TreeNode"];
        };
        TreeNode: {
            children: components["schemas"]["TreeNode"][];
            createdAt: string | null;
            health: components["schemas"]["Health"];
            ref: components["schemas"]["Ref"];
            summary: string;
        };
        /** @description Any JSON value. */
        Value: Json;
    };
    responses: never;
    parameters: never;
    requestBodies: never;
    headers: never;
    pathItems: never;
}
export type $defs = Record<string, never>;
export interface operations {
    audit: {
        parameters: {
            query?: {
                kind?: string;
                namespace?: string;
                name?: string;
                user?: string;
                limit?: number;
                /** @description Only entries older than that with this ID */
                before?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Audit"];
                };
            };
            /** @description An error */
            "4XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description An error */
            "5XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    kinds: {
        parameters: {
            query?: {
                /** @description Include built-in kinds */
                builtin?: boolean;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Kinds"];
                };
            };
            /** @description An error */
            "4XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description An error */
            "5XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    kind: {
        parameters: {
            query?: {
                /** @description A served version [default: the preferred one] */
                version?: string;
            };
            header?: never;
            path: {
                /** @description plural.group */
                kind: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Kind"];
                };
            };
            /** @description An error */
            "4XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description An error */
            "5XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    access: {
        parameters: {
            query?: {
                /** @description A served version [default: the preferred one] */
                version?: string;
                namespace?: string;
                name?: string;
            };
            header?: never;
            path: {
                /** @description plural.group */
                kind: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Access"];
                };
            };
            /** @description An error */
            "4XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description An error */
            "5XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "list-all": {
        parameters: {
            query?: {
                /** @description A served version [default: the preferred one] */
                version?: string;
                labelSelector?: string;
                fieldSelector?: string;
                /** @description Conditions that must all be met */
                filter?: string[];
                /** @description Field paths, with a leading - for descending order */
                sort?: string;
                limit?: number;
                /** @description Continue token of the previous page */
                continue?: string;
                /** @description Paths of the fields to return */
                fields?: string;
                /** @description Include secret values */
                reveal?: boolean;
                /** @description ID of the event to resume a stream after */
                lastEventId?: string;
            };
            header?: never;
            path: {
                /** @description plural.group */
                kind: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InstanceList"];
                    "text/event-stream": string;
                };
            };
            /** @description An error */
            "4XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description An error */
            "5XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "create-any": {
        parameters: {
            query?: {
                /** @description A served version [default: the preferred one] */
                version?: string;
                /** @description Return the difference without applying it */
                dryRun?: boolean;
                /** @description Wait until the instance is ready */
                wait?: "ready";
                /** @description Maximum time to wait, such as 60s */
                timeout?: string;
            };
            header?: {
                /** @description Key that makes retries of the request safe */
                "Idempotency-Key"?: string;
            };
            path: {
                /** @description plural.group */
                kind: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["Object"];
                "application/yaml": components["schemas"]["Object"];
            };
        };
        responses: {
            /** @description The response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Diff"];
                };
            };
            /** @description The response */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Object"];
                };
            };
            /** @description An error */
            "4XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description An error */
            "5XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "get-cluster-scoped": {
        parameters: {
            query?: {
                /** @description A served version [default: the preferred one] */
                version?: string;
                /** @description Include secret values */
                reveal?: boolean;
            };
            header?: never;
            path: {
                /** @description plural.group */
                kind: string;
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Object"];
                    "text/event-stream": string;
                };
            };
            /** @description An error */
            "4XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description An error */
            "5XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "replace-cluster-scoped": {
        parameters: {
            query?: {
                /** @description A served version [default: the preferred one] */
                version?: string;
                /** @description Return the difference without applying it */
                dryRun?: boolean;
                /** @description Wait until the instance is ready */
                wait?: "ready";
                /** @description Maximum time to wait, such as 60s */
                timeout?: string;
            };
            header?: {
                /** @description Key that makes retries of the request safe */
                "Idempotency-Key"?: string;
                /** @description ETag of the version to change */
                "If-Match"?: string;
            };
            path: {
                /** @description plural.group */
                kind: string;
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["Object"];
                "application/yaml": components["schemas"]["Object"];
            };
        };
        responses: {
            /** @description The response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Object"] | components["schemas"]["Diff"];
                };
            };
            /** @description An error */
            "4XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description An error */
            "5XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "delete-cluster-scoped": {
        parameters: {
            query?: {
                /** @description A served version [default: the preferred one] */
                version?: string;
                /** @description Return the difference without applying it */
                dryRun?: boolean;
                /** @description Wait until the instance is ready */
                wait?: "ready";
                /** @description Maximum time to wait, such as 60s */
                timeout?: string;
                /** @description Deletion policy for owned objects */
                propagation?: "background" | "foreground" | "orphan";
            };
            header?: {
                /** @description Key that makes retries of the request safe */
                "Idempotency-Key"?: string;
                /** @description ETag of the version to change */
                "If-Match"?: string;
            };
            path: {
                /** @description plural.group */
                kind: string;
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Object"] | components["schemas"]["Diff"];
                };
            };
            /** @description The response */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Object"];
                };
            };
            /** @description An error */
            "4XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description An error */
            "5XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "patch-cluster-scoped": {
        parameters: {
            query?: {
                /** @description A served version [default: the preferred one] */
                version?: string;
                /** @description Return the difference without applying it */
                dryRun?: boolean;
                /** @description Wait until the instance is ready */
                wait?: "ready";
                /** @description Maximum time to wait, such as 60s */
                timeout?: string;
            };
            header?: {
                /** @description Key that makes retries of the request safe */
                "Idempotency-Key"?: string;
                /** @description ETag of the version to change */
                "If-Match"?: string;
            };
            path: {
                /** @description plural.group */
                kind: string;
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/apply-patch+yaml": {
                    [key: string]: components["schemas"]["Value"];
                };
                "application/json-patch+json": {
                    [key: string]: components["schemas"]["Value"];
                }[];
                "application/merge-patch+json": {
                    [key: string]: components["schemas"]["Value"];
                };
            };
        };
        responses: {
            /** @description The response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Object"] | components["schemas"]["Diff"];
                };
            };
            /** @description An error */
            "4XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description An error */
            "5XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "actions-cluster-scoped": {
        parameters: {
            query?: {
                /** @description A served version [default: the preferred one] */
                version?: string;
            };
            header?: never;
            path: {
                /** @description plural.group */
                kind: string;
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InstanceActions"];
                };
            };
            /** @description An error */
            "4XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description An error */
            "5XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "act-cluster-scoped": {
        parameters: {
            query?: {
                /** @description A served version [default: the preferred one] */
                version?: string;
                /** @description Return the difference without applying it */
                dryRun?: boolean;
                /** @description Wait until the instance is ready */
                wait?: "ready";
                /** @description Maximum time to wait, such as 60s */
                timeout?: string;
            };
            header?: {
                /** @description Key that makes retries of the request safe */
                "Idempotency-Key"?: string;
                /** @description ETag of the version to change */
                "If-Match"?: string;
            };
            path: {
                /** @description plural.group */
                kind: string;
                name: string;
                action: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": {
                    value?: components["schemas"]["Value"];
                };
            };
        };
        responses: {
            /** @description The response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Object"] | components["schemas"]["Diff"];
                };
            };
            /** @description An error */
            "4XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description An error */
            "5XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "events-cluster-scoped": {
        parameters: {
            query?: {
                /** @description A served version [default: the preferred one] */
                version?: string;
                /** @description Include events of owned objects */
                tree?: boolean;
            };
            header?: never;
            path: {
                /** @description plural.group */
                kind: string;
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Events"];
                };
            };
            /** @description An error */
            "4XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description An error */
            "5XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "history-cluster-scoped": {
        parameters: {
            query?: {
                /** @description A served version [default: the preferred one] */
                version?: string;
            };
            header?: never;
            path: {
                /** @description plural.group */
                kind: string;
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["History"];
                };
            };
            /** @description An error */
            "4XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description An error */
            "5XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "history-compare-cluster-scoped": {
        parameters: {
            query: {
                /** @description A served version [default: the preferred one] */
                version?: string;
                /** @description Revision to compare from */
                from: number;
                /** @description Revision to compare with [default: the live object] */
                to?: number;
            };
            header?: never;
            path: {
                /** @description plural.group */
                kind: string;
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Comparison"];
                };
            };
            /** @description An error */
            "4XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description An error */
            "5XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "history-revision-cluster-scoped": {
        parameters: {
            query?: {
                /** @description A served version [default: the preferred one] */
                version?: string;
            };
            header?: never;
            path: {
                /** @description plural.group */
                kind: string;
                name: string;
                revision: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RevisionContent"];
                };
            };
            /** @description An error */
            "4XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description An error */
            "5XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "logs-cluster-scoped": {
        parameters: {
            query?: {
                /** @description A served version [default: the preferred one] */
                version?: string;
                /** @description Name of a pod [default: all pods of the tree] */
                pod?: string;
                container?: string;
                /** @description Number of lines per container */
                tail?: number;
                /** @description Follow the logs */
                follow?: boolean;
                /** @description Logs of the containers before their last restart */
                previous?: boolean;
            };
            header?: never;
            path: {
                /** @description plural.group */
                kind: string;
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/event-stream": string;
                    "text/plain": string;
                };
            };
            /** @description An error */
            "4XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description An error */
            "5XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "status-cluster-scoped": {
        parameters: {
            query?: {
                /** @description A served version [default: the preferred one] */
                version?: string;
            };
            header?: never;
            path: {
                /** @description plural.group */
                kind: string;
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["StatusView"];
                };
            };
            /** @description An error */
            "4XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description An error */
            "5XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "tree-cluster-scoped": {
        parameters: {
            query?: {
                /** @description A served version [default: the preferred one] */
                version?: string;
            };
            header?: never;
            path: {
                /** @description plural.group */
                kind: string;
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Tree"];
                };
            };
            /** @description An error */
            "4XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description An error */
            "5XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    list: {
        parameters: {
            query?: {
                /** @description A served version [default: the preferred one] */
                version?: string;
                labelSelector?: string;
                fieldSelector?: string;
                /** @description Conditions that must all be met */
                filter?: string[];
                /** @description Field paths, with a leading - for descending order */
                sort?: string;
                limit?: number;
                /** @description Continue token of the previous page */
                continue?: string;
                /** @description Paths of the fields to return */
                fields?: string;
                /** @description Include secret values */
                reveal?: boolean;
                /** @description ID of the event to resume a stream after */
                lastEventId?: string;
            };
            header?: never;
            path: {
                /** @description plural.group */
                kind: string;
                namespace: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InstanceList"];
                    "text/event-stream": string;
                };
            };
            /** @description An error */
            "4XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description An error */
            "5XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    create: {
        parameters: {
            query?: {
                /** @description A served version [default: the preferred one] */
                version?: string;
                /** @description Return the difference without applying it */
                dryRun?: boolean;
                /** @description Wait until the instance is ready */
                wait?: "ready";
                /** @description Maximum time to wait, such as 60s */
                timeout?: string;
            };
            header?: {
                /** @description Key that makes retries of the request safe */
                "Idempotency-Key"?: string;
            };
            path: {
                /** @description plural.group */
                kind: string;
                namespace: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["Object"];
                "application/yaml": components["schemas"]["Object"];
            };
        };
        responses: {
            /** @description The response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Diff"];
                };
            };
            /** @description The response */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Object"];
                };
            };
            /** @description An error */
            "4XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description An error */
            "5XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    get: {
        parameters: {
            query?: {
                /** @description A served version [default: the preferred one] */
                version?: string;
                /** @description Include secret values */
                reveal?: boolean;
            };
            header?: never;
            path: {
                /** @description plural.group */
                kind: string;
                namespace: string;
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Object"];
                    "text/event-stream": string;
                };
            };
            /** @description An error */
            "4XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description An error */
            "5XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    replace: {
        parameters: {
            query?: {
                /** @description A served version [default: the preferred one] */
                version?: string;
                /** @description Return the difference without applying it */
                dryRun?: boolean;
                /** @description Wait until the instance is ready */
                wait?: "ready";
                /** @description Maximum time to wait, such as 60s */
                timeout?: string;
            };
            header?: {
                /** @description Key that makes retries of the request safe */
                "Idempotency-Key"?: string;
                /** @description ETag of the version to change */
                "If-Match"?: string;
            };
            path: {
                /** @description plural.group */
                kind: string;
                namespace: string;
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["Object"];
                "application/yaml": components["schemas"]["Object"];
            };
        };
        responses: {
            /** @description The response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Object"] | components["schemas"]["Diff"];
                };
            };
            /** @description An error */
            "4XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description An error */
            "5XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    delete: {
        parameters: {
            query?: {
                /** @description A served version [default: the preferred one] */
                version?: string;
                /** @description Return the difference without applying it */
                dryRun?: boolean;
                /** @description Wait until the instance is ready */
                wait?: "ready";
                /** @description Maximum time to wait, such as 60s */
                timeout?: string;
                /** @description Deletion policy for owned objects */
                propagation?: "background" | "foreground" | "orphan";
            };
            header?: {
                /** @description Key that makes retries of the request safe */
                "Idempotency-Key"?: string;
                /** @description ETag of the version to change */
                "If-Match"?: string;
            };
            path: {
                /** @description plural.group */
                kind: string;
                namespace: string;
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Object"] | components["schemas"]["Diff"];
                };
            };
            /** @description The response */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Object"];
                };
            };
            /** @description An error */
            "4XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description An error */
            "5XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    patch: {
        parameters: {
            query?: {
                /** @description A served version [default: the preferred one] */
                version?: string;
                /** @description Return the difference without applying it */
                dryRun?: boolean;
                /** @description Wait until the instance is ready */
                wait?: "ready";
                /** @description Maximum time to wait, such as 60s */
                timeout?: string;
            };
            header?: {
                /** @description Key that makes retries of the request safe */
                "Idempotency-Key"?: string;
                /** @description ETag of the version to change */
                "If-Match"?: string;
            };
            path: {
                /** @description plural.group */
                kind: string;
                namespace: string;
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/apply-patch+yaml": {
                    [key: string]: components["schemas"]["Value"];
                };
                "application/json-patch+json": {
                    [key: string]: components["schemas"]["Value"];
                }[];
                "application/merge-patch+json": {
                    [key: string]: components["schemas"]["Value"];
                };
            };
        };
        responses: {
            /** @description The response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Object"] | components["schemas"]["Diff"];
                };
            };
            /** @description An error */
            "4XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description An error */
            "5XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    actions: {
        parameters: {
            query?: {
                /** @description A served version [default: the preferred one] */
                version?: string;
            };
            header?: never;
            path: {
                /** @description plural.group */
                kind: string;
                namespace: string;
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InstanceActions"];
                };
            };
            /** @description An error */
            "4XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description An error */
            "5XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    act: {
        parameters: {
            query?: {
                /** @description A served version [default: the preferred one] */
                version?: string;
                /** @description Return the difference without applying it */
                dryRun?: boolean;
                /** @description Wait until the instance is ready */
                wait?: "ready";
                /** @description Maximum time to wait, such as 60s */
                timeout?: string;
            };
            header?: {
                /** @description Key that makes retries of the request safe */
                "Idempotency-Key"?: string;
                /** @description ETag of the version to change */
                "If-Match"?: string;
            };
            path: {
                /** @description plural.group */
                kind: string;
                namespace: string;
                name: string;
                action: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": {
                    value?: components["schemas"]["Value"];
                };
            };
        };
        responses: {
            /** @description The response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Object"] | components["schemas"]["Diff"];
                };
            };
            /** @description An error */
            "4XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description An error */
            "5XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    events: {
        parameters: {
            query?: {
                /** @description A served version [default: the preferred one] */
                version?: string;
                /** @description Include events of owned objects */
                tree?: boolean;
            };
            header?: never;
            path: {
                /** @description plural.group */
                kind: string;
                namespace: string;
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Events"];
                };
            };
            /** @description An error */
            "4XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description An error */
            "5XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    history: {
        parameters: {
            query?: {
                /** @description A served version [default: the preferred one] */
                version?: string;
            };
            header?: never;
            path: {
                /** @description plural.group */
                kind: string;
                namespace: string;
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["History"];
                };
            };
            /** @description An error */
            "4XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description An error */
            "5XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "history-compare": {
        parameters: {
            query: {
                /** @description A served version [default: the preferred one] */
                version?: string;
                /** @description Revision to compare from */
                from: number;
                /** @description Revision to compare with [default: the live object] */
                to?: number;
            };
            header?: never;
            path: {
                /** @description plural.group */
                kind: string;
                namespace: string;
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Comparison"];
                };
            };
            /** @description An error */
            "4XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description An error */
            "5XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "history-revision": {
        parameters: {
            query?: {
                /** @description A served version [default: the preferred one] */
                version?: string;
            };
            header?: never;
            path: {
                /** @description plural.group */
                kind: string;
                namespace: string;
                name: string;
                revision: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RevisionContent"];
                };
            };
            /** @description An error */
            "4XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description An error */
            "5XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    logs: {
        parameters: {
            query?: {
                /** @description A served version [default: the preferred one] */
                version?: string;
                /** @description Name of a pod [default: all pods of the tree] */
                pod?: string;
                container?: string;
                /** @description Number of lines per container */
                tail?: number;
                /** @description Follow the logs */
                follow?: boolean;
                /** @description Logs of the containers before their last restart */
                previous?: boolean;
            };
            header?: never;
            path: {
                /** @description plural.group */
                kind: string;
                namespace: string;
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/event-stream": string;
                    "text/plain": string;
                };
            };
            /** @description An error */
            "4XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description An error */
            "5XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    status: {
        parameters: {
            query?: {
                /** @description A served version [default: the preferred one] */
                version?: string;
            };
            header?: never;
            path: {
                /** @description plural.group */
                kind: string;
                namespace: string;
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["StatusView"];
                };
            };
            /** @description An error */
            "4XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description An error */
            "5XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    tree: {
        parameters: {
            query?: {
                /** @description A served version [default: the preferred one] */
                version?: string;
            };
            header?: never;
            path: {
                /** @description plural.group */
                kind: string;
                namespace: string;
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Tree"];
                };
            };
            /** @description An error */
            "4XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description An error */
            "5XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    me: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Me"];
                };
            };
            /** @description An error */
            "4XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description An error */
            "5XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    operator: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["OperatorView"];
                };
            };
            /** @description An error */
            "4XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description An error */
            "5XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    overview: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Overview"];
                };
            };
            /** @description An error */
            "4XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description An error */
            "5XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "sign-in-ways": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SignInWays"];
                };
            };
            /** @description An error */
            "4XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description An error */
            "5XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "sign-in": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": {
                    token: string;
                };
            };
        };
        responses: {
            /** @description The response */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Me"];
                };
            };
            /** @description An error */
            "4XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description An error */
            "5XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "sign-out": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The session has ended */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description An error */
            "4XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description An error */
            "5XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "oidc-sign-in": {
        parameters: {
            query?: {
                /** @description Path to redirect to after signing in [default: /] */
                next?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A redirect */
            303: {
                headers: {
                    Location?: string;
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description An error */
            "4XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description An error */
            "5XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "oidc-callback": {
        parameters: {
            query?: {
                /** @description Set by the OpenID provider */
                code?: string;
                /** @description Set by the OpenID provider */
                state?: string;
                /** @description Set by the OpenID provider */
                error?: string;
                /** @description Set by the OpenID provider */
                error_description?: string;
                /** @description Set by the OpenID provider */
                iss?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A redirect */
            303: {
                headers: {
                    Location?: string;
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description An error */
            "4XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description An error */
            "5XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
}
