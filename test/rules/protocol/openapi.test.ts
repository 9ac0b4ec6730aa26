import { describe, expect, test } from '@jest/globals'
import { openApiDocument } from '../../../protocol/openapi.ts'
import { type Route, routes } from '../../../protocol/routes.ts'

type Node = Readonly<Record<string, unknown>>

const document = openApiDocument('1.2.3')
const node = (...path: (string | number)[]): Node =>
  Object(path.reduce<unknown>((at, key) => Object(at)[key], document))
const operationOf = ({ path, method }: Route) =>
  node('paths', path.replace(/:([a-z]+)/g, '{$1}'), method.toLowerCase())

/** Yields every object of the document with its path. */
function* objects(value: unknown, path = '#'): Generator<[string, Node]> {
  if (typeof value !== 'object' || value === null) return
  if (!Array.isArray(value)) yield [path, Object(value)]
  for (const [key, inner] of Object.entries(value)) yield* objects(inner, `${path}/${key}`)
}

describe('the document', () => {
  test('is JSON, of version 3.1, and carries the version', () => {
    expect(JSON.parse(JSON.stringify(document))).toEqual(document)
    expect(document).toMatchObject({ openapi: '3.1.0', info: { title: 'switchyard', version: '1.2.3' } })
  })

  test('is built once per version', () => {
    expect(openApiDocument('1.2.3')).toBe(document)
  })

  test('every reference resolves', () => {
    const references = [...objects(document)].flatMap(([path, { $ref }]) =>
      $ref === undefined ? [] : [{ path, $ref }],
    )
    expect(references.length).toBeGreaterThan(100)
    for (const { path, $ref } of references) {
      const [, ...steps] = String($ref).split('/')
      expect({ path, $ref, found: Object.keys(node(...steps)).length > 0 }).toEqual({
        path,
        $ref,
        found: true,
      })
    }
  })

  test('a schema is listed once, under its name', () => {
    const titled = [...objects(document)].filter(
      ([path, { title }]) => typeof title === 'string' && !path.endsWith('/properties') && path !== '#/info',
    )
    for (const [path, { title }] of titled) expect(path).toBe(`#/components/schemas/${title}`)
    expect(node('components', 'schemas')).toMatchObject({
      Run: {},
      Ticket: {},
      ServiceConfig: {},
      WorkerView: {},
      ErrorBody: {},
      RunEvent: {},
    })
    expect(JSON.stringify(document).length).toBeLessThan(256 * 1024)
  })

  test('schemas contain no private keywords', () => {
    for (const [path, value] of objects(node('components', 'schemas'))) {
      expect([path, Object.keys(value).filter((key) => key.startsWith('x-') || key.startsWith('~'))]).toEqual(
        [path, []],
      )
    }
  })

  test('a union names its discriminator', () => {
    const { oneOf, discriminator, anyOf } = node('components', 'schemas', 'RunEvent')
    expect(anyOf).toBeUndefined()
    expect(oneOf).toHaveLength(7)
    expect(discriminator).toMatchObject({
      propertyName: 'type',
      mapping: { log: '#/components/schemas/RunLogEvent' },
    })
  })

  test('secrets are marked', () => {
    expect(node('components', 'schemas', 'CodehostConfig', 'properties', 'token')).toMatchObject({
      format: 'password',
    })
  })
})

describe('operations', () => {
  const rows = Object.entries<Route>(routes)

  test('are exactly the routes', () => {
    const listed = Object.values(node('paths')).flatMap((methods) =>
      Object.values(Object(methods)).map((operation) => Object(operation).operationId),
    )
    expect(listed.sort()).toEqual(rows.map(([name]) => name).sort())
  })

  test.each(rows)('%s', (name, route) => {
    const operation = operationOf(route)
    expect(operation).toMatchObject({ operationId: name, summary: route.summary, tags: [route.tag] })
    const responses: Node = Object(operation.responses)
    expect(Object.keys(responses)[0]).toBe(route.socket === true ? '101' : String(route.successStatus ?? 200))
    for (const status of route.errorStatuses)
      expect(responses[status]).toEqual({ $ref: `#/components/responses/Refused${status}` })
    const placed = [...route.path.matchAll(/:([a-z]+)/g)].map(([, key]) => ({
      name: key,
      in: 'path',
      required: true,
    }))
    expect(operation.parameters ?? []).toEqual(
      expect.arrayContaining(placed.map((entry) => expect.objectContaining(entry))),
    )
    expect(operation.requestBody === undefined).toBe(route.body === undefined)
    expect(operation['x-frames'] === undefined).toBe(route.socket === undefined)
  })

  test('name their authentication', () => {
    expect(operationOf(routes.health).security).toEqual([])
    expect(operationOf(routes.listRuns).security).toEqual([{ launchToken: [] }])
    expect(operationOf(routes.changeWorkerState).security).toEqual([{ workerCredential: [] }])
    expect(operationOf(routes.readDemand).security).toEqual([{ workerCredential: [] }, { joinKey: [] }])
    expect(operationOf(routes.dashboardSocket).security).toEqual([
      { launchToken: [] },
      { launchTokenInAddress: [] },
    ])
  })

  test('name the errors of every route of their kind', () => {
    const refused = (route: Route) =>
      Object.keys(Object(operationOf(route).responses)).filter((status) => Number(status) >= 400)
    expect(refused(routes.health)).toEqual(['400', '403', '408', '413', '503'])
    expect(refused(routes.readConfig)).toEqual(['400', '401', '403', '408', '413', '503'])
    expect(refused(routes.dashboardSocket)).toEqual(['400', '401', '403', '426', '503'])
    expect(refused(routes.workerSocket)).toEqual(['400', '403', '426', '503'])
    expect(refused(routes.readDemand)).toEqual(['400', '403', '408', '413', '503'])
  })

  test('a paged list has a Link header', () => {
    expect(operationOf(routes.listRuns).responses).toMatchObject({
      200: { headers: { Link: { schema: { type: 'string' } } } },
    })
    expect(Object(operationOf(routes.readAttention).responses)[200].headers).toBeUndefined()
  })

  test('query parameters have their limits', () => {
    expect(operationOf(routes.listRuns).parameters).toEqual(
      expect.arrayContaining([
        expect.objectContaining({
          name: 'limit',
          in: 'query',
          required: false,
          schema: { type: 'integer', minimum: 1, maximum: 1000 },
        }),
        expect.objectContaining({ name: 'status', schema: expect.objectContaining({ type: 'array' }) }),
      ]),
    )
  })

  test('responses that are not JSON have their media type', () => {
    expect(operationOf(routes.readArtifact).responses).toMatchObject({
      200: { content: { '*/*': {} } },
    })
    expect(operationOf(routes.trackerCallback).responses).toMatchObject({
      200: { content: { 'text/html': {} } },
    })
    expect(operationOf(routes.readMetrics).responses).toMatchObject({
      200: { content: { 'text/plain': {} } },
    })
  })
})
