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
        /** Who did what */
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
        /** The kinds of the cluster */
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
        /** A kind, with its schema */
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
        /** What the caller may do */
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
        /** Lists instances */
        get: operations["list-all"];
        put?: never;
        /** Creates an instance */
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
        /** Gets an instance */
        get: operations["get-cluster-scoped"];
        /** Replaces an instance */
        put: operations["replace-cluster-scoped"];
        post?: never;
        /** Deletes an instance */
        delete: operations["delete-cluster-scoped"];
        options?: never;
        head?: never;
        /** Patches an instance */
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
        /** What can be done with it */
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
        /** Takes an action */
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
        /** What happened to it */
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
        /** Its revisions */
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
        /** What two of its revisions differ in */
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
        /** One of its revisions */
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
        /** Logs of its pods */
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
        /** Its health and conditions */
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
        /** What belongs to it */
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
        /** Lists instances */
        get: operations["list"];
        put?: never;
        /** Creates an instance */
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
        /** Gets an instance */
        get: operations["get"];
        /** Replaces an instance */
        put: operations["replace"];
        post?: never;
        /** Deletes an instance */
        delete: operations["delete"];
        options?: never;
        head?: never;
        /** Patches an instance */
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
        /** What can be done with it */
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
        /** Takes an action */
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
        /** What happened to it */
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
        /** Its revisions */
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
        /** What two of its revisions differ in */
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
        /** One of its revisions */
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
        /** Logs of its pods */
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
        /** Its health and conditions */
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
        /** What belongs to it */
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
        /** Who the caller is */
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
        /** Queues, reconciles and errors of operators */
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
        /** How all instances are */
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
        /** The ways to sign in beside a token */
        get: operations["sign-in-ways"];
        put?: never;
        /** Opens a session for a token of the cluster */
        post: operations["sign-in"];
        /** Ends the session */
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
        /** Sends a browser to the OpenID provider */
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
        /** Where the OpenID provider sends the browser back to */
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
        /** @description What the caller may do, by verb. */
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
            /** @description Why not; empty if allowed */
            reason: string;
        };
        Action: {
            /** @description What to say before it is taken */
            confirm: string | null;
            description: string;
            /** @description JSON schema of the value that it takes */
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
        /** @description A condition as its operator wrote it. */
        Condition: {
            lastTransitionTime?: string;
            message?: string;
            reason?: string;
            status: string;
            type: string;
        } & {
            [key: string]: components["schemas"]["Value"];
        };
        /** @description What a write would change. */
        Diff: {
            changes: components["schemas"]["Change"][];
            /** @constant */
            dryRun: true;
            /** @description What a deletion would take with it */
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
            /** @description Of one kind alone */
            sample?: components["schemas"]["Object"] | null;
            /** @description The definition's schema; of one kind alone */
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
            /** @description Why the caller may not list them */
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
            /** @description Of a session */
            csrfToken?: string;
            /**
             * Format: date-time
             * @description Of a session
             */
            expiresAt?: string;
            groups: string[];
            username: string;
            /** @enum {unknown} */
            via: "session" | "bearer";
        };
        /** @description An object of the cluster. */
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
                /** @description Why its metrics cannot be read */
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
            /** @description With 412 the object as it is */
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
            /** @description The OpenID provider, if there is one */
            oidc: {
                issuer: string;
                /** @description The path that sends a browser there */
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
                /** @description The id of an entry */
                before?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Audit"];
                };
            };
            /** @description A problem */
            "4XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description A problem */
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
                /** @description Built-in kinds too */
                builtin?: boolean;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Kinds"];
                };
            };
            /** @description A problem */
            "4XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description A problem */
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
                /** @description Another served version than the preferred one */
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
            /** @description The answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Kind"];
                };
            };
            /** @description A problem */
            "4XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description A problem */
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
                /** @description Another served version than the preferred one */
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
            /** @description The answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Access"];
                };
            };
            /** @description A problem */
            "4XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description A problem */
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
                /** @description Another served version than the preferred one */
                version?: string;
                labelSelector?: string;
                fieldSelector?: string;
                /** @description Conditions, of which all must hold */
                filter?: string[];
                /** @description Paths of fields, - before one that descends */
                sort?: string;
                limit?: number;
                /** @description Where the page before ended */
                continue?: string;
                /** @description Paths of the fields to answer with */
                fields?: string;
                /** @description Secret values too */
                reveal?: boolean;
                /** @description Of a stream: the event after which to resume */
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
            /** @description The answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InstanceList"];
                    "text/event-stream": string;
                };
            };
            /** @description A problem */
            "4XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description A problem */
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
                /** @description Another served version than the preferred one */
                version?: string;
                /** @description Answers with the difference, and changes nothing */
                dryRun?: boolean;
                /** @description Answers when it is ready */
                wait?: "ready";
                /** @description How long to wait, such as 60s */
                timeout?: string;
            };
            header?: {
                /** @description Makes the request once */
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
            /** @description The answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Diff"];
                };
            };
            /** @description The answer */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Object"];
                };
            };
            /** @description A problem */
            "4XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description A problem */
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
                /** @description Another served version than the preferred one */
                version?: string;
                /** @description Secret values too */
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
            /** @description The answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Object"];
                    "text/event-stream": string;
                };
            };
            /** @description A problem */
            "4XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description A problem */
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
                /** @description Another served version than the preferred one */
                version?: string;
                /** @description Answers with the difference, and changes nothing */
                dryRun?: boolean;
                /** @description Answers when it is ready */
                wait?: "ready";
                /** @description How long to wait, such as 60s */
                timeout?: string;
            };
            header?: {
                /** @description Makes the request once */
                "Idempotency-Key"?: string;
                /** @description The ETag that the caller has seen */
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
            /** @description The answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Object"] | components["schemas"]["Diff"];
                };
            };
            /** @description A problem */
            "4XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description A problem */
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
                /** @description Another served version than the preferred one */
                version?: string;
                /** @description Answers with the difference, and changes nothing */
                dryRun?: boolean;
                /** @description Answers when it is ready */
                wait?: "ready";
                /** @description How long to wait, such as 60s */
                timeout?: string;
                /** @description What happens to owned objects */
                propagation?: "background" | "foreground" | "orphan";
            };
            header?: {
                /** @description Makes the request once */
                "Idempotency-Key"?: string;
                /** @description The ETag that the caller has seen */
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
            /** @description The answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Object"] | components["schemas"]["Diff"];
                };
            };
            /** @description The answer */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Object"];
                };
            };
            /** @description A problem */
            "4XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description A problem */
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
                /** @description Another served version than the preferred one */
                version?: string;
                /** @description Answers with the difference, and changes nothing */
                dryRun?: boolean;
                /** @description Answers when it is ready */
                wait?: "ready";
                /** @description How long to wait, such as 60s */
                timeout?: string;
            };
            header?: {
                /** @description Makes the request once */
                "Idempotency-Key"?: string;
                /** @description The ETag that the caller has seen */
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
            /** @description The answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Object"] | components["schemas"]["Diff"];
                };
            };
            /** @description A problem */
            "4XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description A problem */
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
                /** @description Another served version than the preferred one */
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
            /** @description The answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InstanceActions"];
                };
            };
            /** @description A problem */
            "4XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description A problem */
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
                /** @description Another served version than the preferred one */
                version?: string;
                /** @description Answers with the difference, and changes nothing */
                dryRun?: boolean;
                /** @description Answers when it is ready */
                wait?: "ready";
                /** @description How long to wait, such as 60s */
                timeout?: string;
            };
            header?: {
                /** @description Makes the request once */
                "Idempotency-Key"?: string;
                /** @description The ETag that the caller has seen */
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
            /** @description The answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Object"] | components["schemas"]["Diff"];
                };
            };
            /** @description A problem */
            "4XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description A problem */
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
                /** @description Another served version than the preferred one */
                version?: string;
                /** @description Those of owned objects too */
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
            /** @description The answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Events"];
                };
            };
            /** @description A problem */
            "4XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description A problem */
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
                /** @description Another served version than the preferred one */
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
            /** @description The answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["History"];
                };
            };
            /** @description A problem */
            "4XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description A problem */
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
                /** @description Another served version than the preferred one */
                version?: string;
                /** @description A revision */
                from: number;
                /** @description A revision [default: the live object] */
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
            /** @description The answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Comparison"];
                };
            };
            /** @description A problem */
            "4XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description A problem */
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
                /** @description Another served version than the preferred one */
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
            /** @description The answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RevisionContent"];
                };
            };
            /** @description A problem */
            "4XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description A problem */
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
                /** @description Another served version than the preferred one */
                version?: string;
                /** @description [default: all of the tree] */
                pod?: string;
                container?: string;
                /** @description Lines of each container */
                tail?: number;
                /** @description Lines to come, too */
                follow?: boolean;
                /** @description Of the container before the last restart */
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
            /** @description The answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/event-stream": string;
                    "text/plain": string;
                };
            };
            /** @description A problem */
            "4XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description A problem */
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
                /** @description Another served version than the preferred one */
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
            /** @description The answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["StatusView"];
                };
            };
            /** @description A problem */
            "4XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description A problem */
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
                /** @description Another served version than the preferred one */
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
            /** @description The answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Tree"];
                };
            };
            /** @description A problem */
            "4XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description A problem */
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
                /** @description Another served version than the preferred one */
                version?: string;
                labelSelector?: string;
                fieldSelector?: string;
                /** @description Conditions, of which all must hold */
                filter?: string[];
                /** @description Paths of fields, - before one that descends */
                sort?: string;
                limit?: number;
                /** @description Where the page before ended */
                continue?: string;
                /** @description Paths of the fields to answer with */
                fields?: string;
                /** @description Secret values too */
                reveal?: boolean;
                /** @description Of a stream: the event after which to resume */
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
            /** @description The answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InstanceList"];
                    "text/event-stream": string;
                };
            };
            /** @description A problem */
            "4XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description A problem */
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
                /** @description Another served version than the preferred one */
                version?: string;
                /** @description Answers with the difference, and changes nothing */
                dryRun?: boolean;
                /** @description Answers when it is ready */
                wait?: "ready";
                /** @description How long to wait, such as 60s */
                timeout?: string;
            };
            header?: {
                /** @description Makes the request once */
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
            /** @description The answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Diff"];
                };
            };
            /** @description The answer */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Object"];
                };
            };
            /** @description A problem */
            "4XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description A problem */
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
                /** @description Another served version than the preferred one */
                version?: string;
                /** @description Secret values too */
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
            /** @description The answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Object"];
                    "text/event-stream": string;
                };
            };
            /** @description A problem */
            "4XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description A problem */
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
                /** @description Another served version than the preferred one */
                version?: string;
                /** @description Answers with the difference, and changes nothing */
                dryRun?: boolean;
                /** @description Answers when it is ready */
                wait?: "ready";
                /** @description How long to wait, such as 60s */
                timeout?: string;
            };
            header?: {
                /** @description Makes the request once */
                "Idempotency-Key"?: string;
                /** @description The ETag that the caller has seen */
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
            /** @description The answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Object"] | components["schemas"]["Diff"];
                };
            };
            /** @description A problem */
            "4XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description A problem */
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
                /** @description Another served version than the preferred one */
                version?: string;
                /** @description Answers with the difference, and changes nothing */
                dryRun?: boolean;
                /** @description Answers when it is ready */
                wait?: "ready";
                /** @description How long to wait, such as 60s */
                timeout?: string;
                /** @description What happens to owned objects */
                propagation?: "background" | "foreground" | "orphan";
            };
            header?: {
                /** @description Makes the request once */
                "Idempotency-Key"?: string;
                /** @description The ETag that the caller has seen */
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
            /** @description The answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Object"] | components["schemas"]["Diff"];
                };
            };
            /** @description The answer */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Object"];
                };
            };
            /** @description A problem */
            "4XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description A problem */
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
                /** @description Another served version than the preferred one */
                version?: string;
                /** @description Answers with the difference, and changes nothing */
                dryRun?: boolean;
                /** @description Answers when it is ready */
                wait?: "ready";
                /** @description How long to wait, such as 60s */
                timeout?: string;
            };
            header?: {
                /** @description Makes the request once */
                "Idempotency-Key"?: string;
                /** @description The ETag that the caller has seen */
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
            /** @description The answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Object"] | components["schemas"]["Diff"];
                };
            };
            /** @description A problem */
            "4XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description A problem */
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
                /** @description Another served version than the preferred one */
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
            /** @description The answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InstanceActions"];
                };
            };
            /** @description A problem */
            "4XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description A problem */
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
                /** @description Another served version than the preferred one */
                version?: string;
                /** @description Answers with the difference, and changes nothing */
                dryRun?: boolean;
                /** @description Answers when it is ready */
                wait?: "ready";
                /** @description How long to wait, such as 60s */
                timeout?: string;
            };
            header?: {
                /** @description Makes the request once */
                "Idempotency-Key"?: string;
                /** @description The ETag that the caller has seen */
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
            /** @description The answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Object"] | components["schemas"]["Diff"];
                };
            };
            /** @description A problem */
            "4XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description A problem */
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
                /** @description Another served version than the preferred one */
                version?: string;
                /** @description Those of owned objects too */
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
            /** @description The answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Events"];
                };
            };
            /** @description A problem */
            "4XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description A problem */
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
                /** @description Another served version than the preferred one */
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
            /** @description The answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["History"];
                };
            };
            /** @description A problem */
            "4XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description A problem */
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
                /** @description Another served version than the preferred one */
                version?: string;
                /** @description A revision */
                from: number;
                /** @description A revision [default: the live object] */
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
            /** @description The answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Comparison"];
                };
            };
            /** @description A problem */
            "4XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description A problem */
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
                /** @description Another served version than the preferred one */
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
            /** @description The answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RevisionContent"];
                };
            };
            /** @description A problem */
            "4XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description A problem */
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
                /** @description Another served version than the preferred one */
                version?: string;
                /** @description [default: all of the tree] */
                pod?: string;
                container?: string;
                /** @description Lines of each container */
                tail?: number;
                /** @description Lines to come, too */
                follow?: boolean;
                /** @description Of the container before the last restart */
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
            /** @description The answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/event-stream": string;
                    "text/plain": string;
                };
            };
            /** @description A problem */
            "4XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description A problem */
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
                /** @description Another served version than the preferred one */
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
            /** @description The answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["StatusView"];
                };
            };
            /** @description A problem */
            "4XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description A problem */
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
                /** @description Another served version than the preferred one */
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
            /** @description The answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Tree"];
                };
            };
            /** @description A problem */
            "4XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description A problem */
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
            /** @description The answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Me"];
                };
            };
            /** @description A problem */
            "4XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description A problem */
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
            /** @description The answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["OperatorView"];
                };
            };
            /** @description A problem */
            "4XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description A problem */
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
            /** @description The answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Overview"];
                };
            };
            /** @description A problem */
            "4XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description A problem */
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
            /** @description The answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SignInWays"];
                };
            };
            /** @description A problem */
            "4XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description A problem */
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
            /** @description The answer */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Me"];
                };
            };
            /** @description A problem */
            "4XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description A problem */
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
            /** @description A problem */
            "4XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description A problem */
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
                /** @description The path to go to afterwards, / without it */
                next?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Elsewhere */
            303: {
                headers: {
                    Location?: string;
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description A problem */
            "4XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description A problem */
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
                /** @description As the provider gives it */
                code?: string;
                /** @description As the provider gives it */
                state?: string;
                /** @description As the provider gives it */
                error?: string;
                /** @description As the provider gives it */
                error_description?: string;
                /** @description As the provider gives it */
                iss?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Elsewhere */
            303: {
                headers: {
                    Location?: string;
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description A problem */
            "4XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description A problem */
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
