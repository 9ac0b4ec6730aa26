/**
 * Builds the OpenAPI 3.1 document from the route table and the schemas that check requests.
 *
 * A schema with a title becomes a shared component of that name. A socket is listed as its upgrade request, and an
 * extension names its frames.
 */
import type { TObject, TSchema } from 'typebox'
import {
  ErrorBody,
  type PlainResponse,
  type Route,
  type RouteAccess,
  type RouteTag,
  routes,
} from './routes.ts'
import { asShape, type Shape } from './schema-errors.ts'

type OpenApiObject = Readonly<Record<string, unknown>>

let cached: { readonly version: string; readonly document: OpenApiObject } | undefined

/** Built on first use, because most processes never need it. */
export function openApiDocument(version: string): OpenApiObject {
  if (cached?.version !== version) cached = { version, document: buildDocument(version) }
  return cached.document
}

function buildDocument(version: string): OpenApiObject {
  const components = new Components()
  const paths = pathsOf(Object.entries<Route>(routes), components)
  const responses = errorResponses(components)
  return {
    openapi: '3.1.0',
    info: {
      title: 'switchyard',
      version,
      description: 'A local orchestrator for coding agents. Listens on this machine only.',
    },
    servers: [
      {
        url: 'http://127.0.0.1:{port}',
        variables: { port: { default: '4400', description: 'server.port of the configuration' } },
      },
    ],
    tags: Object.entries(tags).map(([name, description]) => ({ name, description })),
    paths,
    components: { schemas: components.all(), responses, securitySchemes },
  }
}

// ---- components ------------------------------------------------------------------------------------------------

class Components {
  readonly #schemas = new Map<string, OpenApiObject>()

  /** Returns a reference for a titled schema, else the schema itself. */
  of(schema: TSchema): OpenApiObject {
    const name = titleOf(schema)
    if (name === undefined) return this.#inlineSchema(schema)
    if (!this.#schemas.has(name)) {
      // The entry is added before the content is visited, which keeps the order of first mention.
      this.#schemas.set(name, {})
      this.#schemas.set(name, { title: name, ...this.#inlineSchema(schema) })
    }
    return { $ref: `#/components/schemas/${name}` }
  }

  all(): OpenApiObject {
    return Object.fromEntries([...this.#schemas].sort(([a], [b]) => (a < b ? -1 : 1)))
  }

  #inlineSchema(schema: TSchema): OpenApiObject {
    const shape = asShape(schema)
    const plain = Object.entries(shape).filter(
      ([key]) => !key.startsWith('x-') && key !== 'title' && key !== 'anyOf',
    )
    return {
      ...Object.fromEntries(plain.map(([key, value]) => [key, this.#keyword(key, value)])),
      ...this.#union(shape.anyOf),
      ...schemaHints(shape),
    }
  }

  #keyword(key: string, value: unknown): unknown {
    if (key === 'properties' || key === 'patternProperties') {
      const fields = Object.entries<TSchema>(Object(value))
      return Object.fromEntries(fields.map(([name, field]) => [name, this.of(field)]))
    }
    return key === 'items' ? this.of(Object(value)) : value
  }

  /** A union of records with a common tag gets a discriminator. */
  #union(branches: readonly Shape[] | undefined): OpenApiObject {
    if (branches === undefined) return {}
    const refs = branches.map((branch) => this.of(branch))
    const tag = ['type', 'kind', 'status'].find((key) =>
      branches.every(
        (branch) => titleOf(branch) !== undefined && branch.properties?.[key]?.const !== undefined,
      ),
    )
    if (tag === undefined) return { anyOf: refs }
    const mapping = branches.map((branch, index) => [branch.properties?.[tag]?.const, refs[index]?.$ref])
    return {
      oneOf: refs,
      discriminator: { propertyName: tag, mapping: Object.fromEntries(mapping) },
    }
  }
}

function schemaHints(shape: Shape): OpenApiObject {
  const { description, 'x-expects': expects, 'x-secret': secret } = shape
  return {
    ...(description === undefined && expects !== undefined ? { description: `Must be ${expects}.` } : {}),
    ...(secret === true ? { format: 'password' } : {}),
  }
}

function titleOf(schema: TSchema): string | undefined {
  return asShape(schema).title
}

// ---- paths -----------------------------------------------------------------------------------------------------

function pathsOf(rows: readonly (readonly [string, Route])[], components: Components): OpenApiObject {
  const paths = new Map<string, OpenApiObject>()
  for (const [name, route] of rows) {
    const path = route.path.replace(/:([a-z]+)/gi, '{$1}')
    paths.set(path, { ...paths.get(path), [route.method.toLowerCase()]: operation(name, route, components) })
  }
  return Object.fromEntries(paths)
}

function operation(name: string, route: Route, components: Components): OpenApiObject {
  const parameters = [
    ...parametersOf('path', route.params, components),
    ...parametersOf('query', route.query, components),
  ]
  return {
    operationId: name,
    tags: [route.tag],
    summary: route.summary,
    security: security(route),
    ...(parameters.length === 0 ? {} : { parameters }),
    ...(route.body === undefined
      ? {}
      : {
          requestBody: {
            required: route.isBodyOptional !== true,
            content: jsonContent(route.body, components),
          },
        }),
    responses: responsesOf(route, components),
    'x-listeners': route.listeners,
    ...(route.frames === undefined
      ? {}
      : {
          'x-frames': {
            fromClient: components.of(route.frames.from),
            fromServer: components.of(route.frames.to),
          },
        }),
  }
}

function parametersOf(
  place: 'path' | 'query',
  schema: TObject | undefined,
  components: Components,
): OpenApiObject[] {
  const { properties = {}, required = [] } = schema === undefined ? {} : asShape(schema)
  return Object.entries(properties).map(([name, field]) => ({
    name,
    in: place,
    required: required.includes(name),
    ...(field.description === undefined ? {} : { description: field.description }),
    schema: components.of(field),
  }))
}

// ---- responses -------------------------------------------------------------------------------------------------

function responsesOf(route: Route, components: Components): OpenApiObject {
  const own =
    route.socket === true
      ? { 101: { description: 'The connection becomes a WebSocket.' } }
      : successResponse(route, components)
  const refusals = [...new Set([...route.errorStatuses, ...commonErrorStatuses(route)])].sort((a, b) => a - b)
  return {
    ...own,
    ...Object.fromEntries(refusals.map((status) => [status, { $ref: errorResponseRef(status) }])),
  }
}

function successResponse({ response, isPaged, successStatus }: Route, components: Components): OpenApiObject {
  if (response === 'redirect') return { 302: { description: 'Leads the browser on.' } }
  const content = isPlain(response) ? { [mediaTypes[response]]: {} } : jsonContent(response, components)
  return {
    [successStatus ?? 200]: {
      description: 'Done.',
      ...(isPaged === true ? { headers: nextPageHeader } : {}),
      content,
    },
  }
}

const nextPageHeader: OpenApiObject = {
  Link: {
    description:
      'The pages beside this one, as `<…>; rel="next"` and, where the path has pages before it, `rel="prev"`. Each is left out where it would be empty.',
    schema: { type: 'string' },
  },
}

function isPlain(response: TSchema | PlainResponse): response is PlainResponse {
  return typeof response === 'string'
}

const mediaTypes: Readonly<Record<PlainResponse, string>> = {
  // The type depends on the file's name.
  bytes: '*/*',
  html: 'text/html',
  text: 'text/plain',
  redirect: 'text/plain',
  frames: 'application/json',
}

function jsonContent(schema: TSchema, components: Components): OpenApiObject {
  return { 'application/json': { schema: components.of(schema) } }
}

/** Error statuses that every route of this kind may return. */
function commonErrorStatuses({ access, socket }: Route): number[] {
  const byAccess: Readonly<Record<RouteAccess, readonly number[]>> = {
    anyone: [403],
    'launch-token': [401, 403],
    worker: [403],
    'worker-or-join-key': [403],
    'first-frame': [403],
  }
  // Every request may carry a body, which is limited too; a socket route responds before the body is read.
  return [400, ...byAccess[access], ...(socket === true ? [426] : [408, 413]), 503]
}

const errorDescriptions: Readonly<Record<number, string>> = {
  400: 'The request is wrong; the error names the field.',
  401: 'The launch token is missing or wrong.',
  403: 'The caller, or the place of the call, is not allowed.',
  404: 'The thing does not exist.',
  408: 'The body did not arrive in time.',
  409: 'Not possible in the current state.',
  410: 'The thing existed and is gone for good.',
  413: 'The body is too large.',
  426: 'This path speaks WebSocket: ask with an Upgrade.',
  429: 'Asked too often; Retry-After says when to ask again.',
  500: 'The service could not do it.',
  502: 'The service behind this one failed.',
  503: 'The service is stopping, or a limit is reached.',
}

function errorResponseRef(status: number): string {
  return `#/components/responses/Refused${status}`
}

function errorResponses(components: Components): OpenApiObject {
  const named = Object.entries(errorDescriptions).map(([status, description]) => [
    `Refused${status}`,
    { description, content: jsonContent(ErrorBody, components) },
  ])
  return Object.fromEntries(named)
}

// ---- authentication --------------------------------------------------------------------------------------------

function security({ access, socket }: Route): OpenApiObject[] {
  if (access === 'worker') return [{ workerCredential: [] }]
  if (access === 'worker-or-join-key') return [{ workerCredential: [] }, { joinKey: [] }]
  if (access !== 'launch-token') return []
  return socket === true ? [{ launchToken: [] }, { launchTokenInAddress: [] }] : [{ launchToken: [] }]
}

const securitySchemes: OpenApiObject = {
  launchToken: {
    type: 'http',
    scheme: 'bearer',
    description: 'Made anew at each start; launch.json in the data directory holds it.',
  },
  launchTokenInAddress: {
    type: 'apiKey',
    in: 'query',
    name: 'token',
    description: 'The launch token for sockets, where a browser cannot set headers.',
  },
  workerCredential: {
    type: 'http',
    scheme: 'bearer',
    description: "The worker's own credential, from its credential file.",
  },
  joinKey: {
    type: 'http',
    scheme: 'bearer',
    description: 'A join key, for the supervisor of many workers; the request then names none.',
  },
}

const tags: Readonly<Record<Exclude<RouteTag, 'helper'>, string>> = {
  service: 'The service itself and its configuration.',
  runs: 'Tickets and the runs made of them.',
  workers: 'The machines that runs execute on.',
  connect: 'Accounts and how they are connected.',
  pulls: 'Repositories, pull requests and tracker projects.',
  memories: 'What runs have recorded about repositories.',
}
