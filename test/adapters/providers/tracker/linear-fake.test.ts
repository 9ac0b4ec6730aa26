/** Checks the fake Linear with the real SDK, and that it refuses what the real Linear refuses. */
import { createHash } from 'node:crypto'
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals'
import {
  AuthenticationLinearError,
  ForbiddenLinearError,
  InternalLinearError,
  InvalidInputLinearError,
  LinearClient,
  LinearError,
  PaginationOrderBy,
  RatelimitedLinearError,
} from '@linear/sdk'
import fc from 'fast-check'
import { freePort } from '../../../support/free-ports.ts'
import { ask, post } from '../../../support/linear/graphql-request.ts'
import { type FakeLinear, type FakeLinearOptions, startLinear } from '../../../support/linear/linear.ts'
import { until } from '../../../support/until.ts'

const REDIRECT = 'http://localhost:4400/api/connect/tracker/callback'
const APP = { clientId: 'client-a', clientSecret: 'the-secret', redirectUris: [REDIRECT] }
const HOUR_MS = 3_600_000

let now = Date.UTC(2026, 0, 1)
let linear: FakeLinear

async function begin(options: FakeLinearOptions = {}): Promise<void> {
  await linear?.stop()
  linear = await startLinear({ now: () => now, app: APP, ...options })
}

beforeEach(async () => {
  now = Date.UTC(2026, 0, 1)
  await begin()
})
afterEach(() => linear.stop())

const byKey = (): LinearClient => new LinearClient({ apiKey: linear.apiKey, apiUrl: linear.graphqlUrl })
const byToken = (accessToken: string): LinearClient =>
  new LinearClient({ accessToken, apiUrl: linear.graphqlUrl })

describe('the real SDK works with the fake', () => {
  test('the viewer and the organization, by a key and by a token', async () => {
    expect(await byKey().viewer).toMatchObject({
      name: 'Ada Lovelace',
      email: 'ada@acme.example',
      isMe: true,
    })
    const client = byToken(linear.grant().accessToken)
    expect(await (await client.viewer).organization).toMatchObject({ name: 'Acme', urlKey: 'acme' })
  })

  test('issues are filtered, ordered and read page by page', async () => {
    for (let count = 1; count <= 120; count++) {
      now += 1000
      linear.world.issue({ title: `Issue ${count}`, state: count % 2 ? 'Todo' : 'Done' })
    }
    const filter = { state: { type: { in: ['unstarted'] } } }
    let page = await byKey().issues({ first: 25, filter, orderBy: PaginationOrderBy.UpdatedAt })
    expect(page.nodes[0]).toMatchObject({ identifier: 'ENG-119', title: 'Issue 119' })
    expect(await page.nodes[0]?.state).toMatchObject({ name: 'Todo', type: 'unstarted' })
    page = await page.fetchNext()
    expect(page.nodes).toHaveLength(50)
    page = await page.fetchNext()
    expect(page.nodes.map(({ number }) => number)).toEqual(
      Array.from({ length: 60 }, (_, at) => 119 - 2 * at),
    )
    expect(page.pageInfo.hasNextPage).toBe(false)
  })

  test('an issue is read by id and by identifier, with its links', async () => {
    const blocker = linear.world.issue({ title: 'First this' })
    const { id } = linear.world.issue({ title: 'Then that', labels: ['agent', 'ui'], blockedBy: [blocker] })
    const issue = await byKey().issue('eng-2')
    expect(issue).toMatchObject({ id, branchName: 'eng-2-then-that', priorityLabel: 'No priority' })
    expect((await byKey().issue(id)).identifier).toBe('ENG-2')
    expect((await issue.labels()).nodes.map(({ name }) => name).sort()).toEqual(['agent', 'ui'])
    const [relation] = (await issue.inverseRelations()).nodes
    expect(relation?.type).toBe('blocks')
    expect((await relation?.issue)?.identifier).toBe('ENG-1')
  })

  test('an issue is moved to another state, and that is a change', async () => {
    const issue = linear.world.issue({ title: 'A' })
    const state = issue.team.states.find(({ name }) => name === 'In Progress')
    now += 5000
    const moved = await byKey().updateIssue(issue.id, { stateId: state?.id ?? '' })
    expect(moved.success).toBe(true)
    expect((await moved.issue)?.updatedAt).toEqual(new Date(now))
    expect(await (await moved.issue)?.state).toMatchObject({ name: 'In Progress' })
    expect((await moved.issue)?.startedAt).toEqual(new Date(now))
  })

  test('a comment is made', async () => {
    const issue = linear.world.issue({ title: 'A' })
    const { comment } = await byKey().createComment({ issueId: issue.identifier, body: 'Hello **there**' })
    expect((await comment)?.body).toBe('Hello **there**')
    expect(linear.world.comments).toMatchObject([{ issue, user: linear.viewer }])
  })

  test('attaching a link twice keeps one attachment with the second title', async () => {
    const { id: issueId } = linear.world.issue({ title: 'A' })
    const url = 'https://github.com/acme/app/pull/1'
    const first = await byKey().createAttachment({ issueId, url, title: 'Draft' })
    const second = await byKey().createAttachment({ issueId, url, title: 'Ready', subtitle: 'open' })
    const third = await byKey().attachmentLinkURL(issueId, url, { title: 'Linked' })
    expect([second.attachmentId, third.attachmentId]).toEqual([first.attachmentId, first.attachmentId])
    expect(await third.attachment).toMatchObject({ title: 'Linked', url })
    expect((await byKey().attachmentsForURL(url)).nodes).toHaveLength(1)
  })

  test('projects, teams, states and people', async () => {
    const team = linear.world.team({ key: 'OPS', name: 'Operations' })
    linear.world.project({ name: 'Q1 launch', teams: [team] })
    const [project] = (await byKey().projects()).nodes
    expect(project).toMatchObject({ name: 'Q1 launch', slugId: expect.stringMatching(/^[0-9a-f]{12}$/) })
    expect((await project?.teams())?.nodes).toMatchObject([{ key: 'OPS', name: 'Operations' }])
    const states = await byKey().workflowStates({ filter: { team: { id: { eq: team.id } } } })
    expect(states.nodes.map(({ type }) => type)).toContain('duplicate')
    expect((await byKey().teams()).nodes).toHaveLength(1)
    expect((await byKey().users({ filter: { isMe: { eq: true } } })).nodes).toHaveLength(1)
  })

  test('the remaining quota is reported', async () => {
    const { limits } = await byKey().rateLimitStatus
    expect(limits).toMatchObject([
      { type: 'REQUESTS', allowedAmount: 1500, remainingAmount: 1499 },
      { type: 'COMPLEXITY', allowedAmount: 250_000 },
    ])
  })
})

describe('the real SDK recognizes the refusals of the fake', () => {
  const refusal = async (work: PromiseLike<unknown>): Promise<unknown> => {
    try {
      return await work
    } catch (thrown) {
      return thrown
    }
  }

  test('an unknown key, a key sent as Bearer, and an expired token', async () => {
    const wrong = new LinearClient({ apiKey: 'lin_api_wrong', apiUrl: linear.graphqlUrl })
    expect(await refusal(wrong.viewer)).toBeInstanceOf(AuthenticationLinearError)
    expect(await refusal(byToken(linear.apiKey).viewer)).toBeInstanceOf(AuthenticationLinearError)
    const client = byToken(linear.grant().accessToken)
    expect(await refusal(client.viewer)).not.toBeInstanceOf(LinearError)
    linear.advance(24 * HOUR_MS)
    expect(await refusal(client.viewer)).toBeInstanceOf(AuthenticationLinearError)
  })

  test('missing objects and invalid arguments', async () => {
    const missing = await refusal(byKey().issue('ENG-404'))
    expect(missing).toBeInstanceOf(InvalidInputLinearError)
    expect(missing).toMatchObject({
      status: 200,
      message: expect.stringContaining('Entity not found: Issue'),
    })
    expect(await refusal(byKey().issues({ first: 251 }))).toBeInstanceOf(InvalidInputLinearError)
    const issue = linear.world.issue({ title: 'A' })
    const otherTeam = linear.world.team({ key: 'OPS' })
    const elsewhere = byKey().updateIssue(issue.id, { stateId: otherTeam.states[0]?.id ?? '' })
    expect(await refusal(elsewhere)).toBeInstanceOf(InvalidInputLinearError)
    expect(await refusal(byKey().updateIssue(issue.id, { stateId: 'Done' }))).toBeInstanceOf(
      InvalidInputLinearError,
    )
    expect(issue.state.name).toBe('Todo')
  })

  test('a read-only token', async () => {
    const { id: issueId } = linear.world.issue({ title: 'A' })
    const client = byToken(linear.grant({ scopes: ['read'] }).accessToken)
    expect((await client.issues()).nodes).toHaveLength(1)
    expect(await refusal(client.createComment({ issueId, body: 'no' }))).toBeInstanceOf(ForbiddenLinearError)
    expect(linear.world.comments).toHaveLength(0)
  })

  test.each([200, 400, 429] as const)('a rate limit, reported with status %d', async (status) => {
    linear.faults.add({ kind: 'ratelimited', status, retryAfterSeconds: 7 }, { times: 1 })
    expect(await refusal(byKey().viewer)).toBeInstanceOf(RatelimitedLinearError)
    expect(await byKey().viewer).toMatchObject({ isMe: true })
  })

  test('the other faults', async () => {
    linear.faults.add({ kind: 'authentication', status: 200 }, { times: 1 })
    expect(await refusal(byKey().viewer)).toBeInstanceOf(AuthenticationLinearError)
    linear.faults.add({ kind: 'internal' }, { times: 1 })
    expect(await refusal(byKey().viewer)).toBeInstanceOf(InternalLinearError)
    linear.faults.add({ kind: 'html' }, { times: 1 })
    expect(await refusal(byKey().viewer)).toBeInstanceOf(LinearError)
    for (const kind of ['reset', 'cut'] as const) {
      linear.faults.add({ kind }, { times: 1 })
      expect(await refusal(byKey().viewer)).toBeInstanceOf(LinearError)
    }
    expect(await refusal(byKey().viewer)).not.toBeInstanceOf(LinearError)
  })
})

describe('filters', () => {
  const LIST = 'query List($filter: IssueFilter) { issues(first: 250, filter: $filter) { nodes { number } } }'
  const numbers = async (filter: object): Promise<number[]> => {
    const { body } = await ask(linear, LIST, { filter })
    if (body.errors) throw new Error(JSON.stringify(body.errors))
    return body.data.issues.nodes.map((node: { number: number }) => node.number).sort()
  }

  beforeEach(() => {
    const { world } = linear
    const grace = world.user({ name: 'Grace Hopper', displayName: 'Grâce', email: 'grace@acme.example' })
    const team = world.team({ key: 'ENG', name: 'Engineering' })
    const project = world.project({ name: 'Launch' })
    const first = world.issue({ title: 'One', team, labels: ['agent'], assignee: linear.viewer, priority: 1 })
    now += 60_000
    world.issue({ title: 'Two', team, labels: ['Agent', 'ui'], assignee: grace, project, blockedBy: [first] })
    world.issue({ title: 'Three', team, state: 'In Progress', parent: first })
  })

  test.each<[string, (slugId: string) => object, number[]]>([
    ['nothing asked', () => ({}), [1, 2, 3]],
    ['a team by its key', () => ({ team: { key: { in: ['ENG'] } } }), [1, 2, 3]],
    ['another team', () => ({ team: { key: { eq: 'OPS' } } }), []],
    ['a state by its type', () => ({ state: { type: { nin: ['started'] } } }), [1, 2]],
    ['a state by its name', () => ({ state: { name: { eqIgnoreCase: 'in progress' } } }), [3]],
    ['some label', () => ({ labels: { some: { name: { eqIgnoreCase: 'agent' } } } }), [1, 2]],
    ['a label without some', () => ({ labels: { name: { eq: 'ui' } } }), [2]],
    ['every label', () => ({ labels: { every: { name: { startsWith: 'a' } } } }), [1, 3]],
    ['so many labels', () => ({ labels: { length: { gte: 2 } } }), [2]],
    ['mine', () => ({ assignee: { isMe: { eq: true } } }), [1]],
    ['nobody’s', () => ({ assignee: { null: true } }), [3]],
    ['somebody’s', () => ({ assignee: { null: false } }), [1, 2]],
    ['by e-mail', () => ({ assignee: { email: { eqIgnoreCase: 'GRACE@acme.example' } } }), [2]],
    ['by name', () => ({ assignee: { name: { startsWith: 'Grace' } } }), [2]],
    ['without accents', () => ({ assignee: { displayName: { containsIgnoreCaseAndAccent: 'grace' } } }), [2]],
    ['mine or nobody’s', () => ({ assignee: { or: [{ isMe: { eq: true } }, { null: true }] } }), [1, 3]],
    ['a project by its slug', (slugId) => ({ project: { slugId: { eq: slugId } } }), [2]],
    ['no project', () => ({ project: { null: true } }), [1, 3]],
    ['an identifier', () => ({ id: { in: ['ENG-1', 'ENG-3'] } }), [1, 3]],
    ['a number', () => ({ number: { lte: 2 } }), [1, 2]],
    ['changed later', () => ({ updatedAt: { gt: '2026-01-01T00:00:30.000Z' } }), [2, 3]],
    ['changed lately', () => ({ updatedAt: { gte: '-PT30S' } }), [2, 3]],
    ['blocked', () => ({ hasBlockedByRelations: { eq: true } }), [2]],
    ['a child', () => ({ parent: { number: { eq: 1 } } }), [3]],
    ['either', () => ({ or: [{ number: { eq: 1 } }, { title: { eq: 'Three' } }] }), [1, 3]],
    ['both', () => ({ and: [{ number: { gt: 1 } }, { priority: { eq: 0 } }] }), [2, 3]],
  ])('%s', async (_, filter, expected) => {
    expect(await numbers(filter(linear.world.projects[0]?.slugId ?? ''))).toEqual(expected)
  })

  test('`and` intersects, `or` unites', async () => {
    const filter = fc.constantFrom<object>(
      { number: { gte: 2 } },
      { labels: { name: { startsWith: 'a' } } },
      { assignee: { null: true } },
      { state: { type: { eq: 'started' } } },
      { project: { name: { contains: 'aunc' } } },
    )
    const both = async (left: object, right: object): Promise<void> => {
      const [first, second] = [await numbers(left), await numbers(right)]
      expect(await numbers({ and: [left, right] })).toEqual(first.filter((number) => second.includes(number)))
      expect(await numbers({ or: [left, right] })).toEqual([...new Set([...first, ...second])].sort())
      expect(await numbers({ ...left, and: [right] })).toEqual(await numbers({ and: [left, right] }))
    }
    await fc.assert(fc.asyncProperty(filter, filter, both), { numRuns: 10 })
  })

  test('archived and deleted issues are listed only on request, and readable by id', async () => {
    const [archived, trashed, removed] = linear.world.issues
    if (!archived || !trashed || !removed) throw new Error('there are three')
    linear.world.archive(archived)
    linear.world.trash(trashed)
    linear.world.remove(removed)
    expect(await numbers({})).toEqual([])
    const all = await byKey().issues({ includeArchived: true })
    expect(all.nodes.map(({ identifier }) => identifier).sort()).toEqual(['ENG-1', 'ENG-2'])
    expect(await byKey().issue(trashed.id)).toMatchObject({ trashed: true, archivedAt: new Date(now) })
    expect(linear.world.issue({ title: 'Four' }).identifier).toBe('ENG-4')
  })

  test('a filter that Linear does not have is refused', async () => {
    const { status, body } = await ask(linear, LIST, { filter: { state: { kind: { eq: 'x' } } } })
    expect(status).toBe(400)
    expect(body.data).toBeUndefined()
  })
})

describe('pages', () => {
  const PAGE = `query Page($first: Int, $after: String, $orderBy: PaginationOrderBy) {
    issues(first: $first, after: $after, orderBy: $orderBy) {
      nodes { number } edges { cursor node { number } } pageInfo { hasNextPage endCursor }
    }
  }`

  test('every issue is on exactly one page, whatever the page size', async () => {
    for (let count = 0; count < 23; count++) linear.world.issue({ title: `${count}` })
    const everything = async (first: number, orderBy: string): Promise<void> => {
      const seen: number[] = []
      for (let after: string | null = null, more = true; more; ) {
        const reply = await ask(linear, PAGE, { first, after, orderBy })
        const { issues } = reply.body.data
        expect(issues.edges.map((edge: { node: object }) => edge.node)).toEqual(issues.nodes)
        seen.push(...issues.nodes.map(({ number }: { number: number }) => number))
        after = issues.pageInfo.endCursor
        more = issues.pageInfo.hasNextPage
      }
      expect(seen.sort((a, b) => a - b)).toEqual(Array.from({ length: 23 }, (_, at) => at + 1))
    }
    const size = fc.integer({ min: 1, max: 30 })
    const order = fc.constantFrom('createdAt', 'updatedAt')
    await fc.assert(fc.asyncProperty(size, order, everything), { numRuns: 12 })
  })

  test('pages run backwards, and by a sort', async () => {
    for (let count = 0; count < 4; count++) {
      now += 1000
      linear.world.issue({ title: `${count}` })
    }
    const listed = async (query: string): Promise<number[]> => {
      const { body } = await ask(linear, `{ issues(${query}) { nodes { number } pageInfo { startCursor } } }`)
      return body.data.issues.nodes.map(({ number }: { number: number }) => number)
    }
    expect(await listed('first: 9')).toEqual([4, 3, 2, 1])
    expect(await listed('last: 3')).toEqual([3, 2, 1])
    expect(await listed('first: 2, sort: [{ createdAt: { order: Ascending } }]')).toEqual([1, 2])
    const { body } = await ask(linear, '{ issues(last: 2) { pageInfo { startCursor } } }')
    expect(await listed(`last: 1, before: "${body.data.issues.pageInfo.startCursor}"`)).toEqual([3])
  })

  test('an issue that changes meanwhile moves off later pages, and no other is lost', async () => {
    for (let count = 0; count < 6; count++) {
      now += 1000
      linear.world.issue({ title: `${count}` })
    }
    const first = (await ask(linear, PAGE, { first: 3, orderBy: 'updatedAt' })).body.data.issues
    const last = linear.world.issueOf('ENG-2')
    now += 1000
    if (last) linear.world.change(last, { title: 'Changed' })
    const after = first.pageInfo.endCursor
    const second = (await ask(linear, PAGE, { first: 3, after, orderBy: 'updatedAt' })).body.data.issues
    expect(second.nodes).toEqual([{ number: 3 }, { number: 1 }])
    expect((await ask(linear, PAGE, { after: 'nonsense' })).body.errors[0].extensions.code).toBe(
      'INPUT_ERROR',
    )
  })
})

describe('quota', () => {
  const ISSUES = `query EligibleIssues($first: Int) { issues(first: $first) {
    pageInfo { hasNextPage endCursor }
    nodes {
      id identifier title description priority priorityLabel url branchName createdAt updatedAt
      state { id name type } team { id key name } project { id name slugId }
      assignee { id displayName email isMe } labels(first: 20) { nodes { id name } }
      inverseRelations(first: 10) { nodes { type issue { id identifier state { type } } } }
    }
  } }`

  test('a query costs what its pages could hold, and the headers say so', async () => {
    const { status, headers } = await ask(linear, ISSUES, { first: 50 })
    expect(status).toBe(200)
    expect(Number(headers.get('x-complexity'))).toBeGreaterThan(3200)
    expect(Number(headers.get('x-complexity'))).toBeLessThan(3400)
    expect(linear.points).toBe(Number(headers.get('x-complexity')))
    expect(headers.get('x-ratelimit-requests-remaining')).toBe('1499')
    expect(headers.get('x-ratelimit-complexity-remaining')).toBe(String(250_000 - linear.points))
    expect(Number(headers.get('x-ratelimit-requests-reset'))).toBeGreaterThan(now)
    expect(Number(headers.get('x-ratelimit-complexity-reset'))).toBeLessThan(now + HOUR_MS)
  })

  test('a query beyond the complexity limit is refused and costs nothing', async () => {
    const { status, body, headers } = await ask(linear, ISSUES, { first: 250 })
    expect({ status, code: body.errors[0].extensions.code }).toEqual({ status: 400, code: 'INPUT_ERROR' })
    expect(body.errors[0].message).toBe('Query too complex')
    expect(headers.get('x-ratelimit-complexity-remaining')).toBe('250000')
  })

  test('a page counts by its variable or its default, and never negatively', async () => {
    const query = 'query Some($first: Int = 7) { issues(first: $first) { nodes { id } } }'
    const costOf = async (variables: object) =>
      Number((await ask(linear, query, variables)).headers.get('x-complexity'))
    expect(await costOf({})).toBe(8)
    expect(await costOf({ first: 70 })).toBe(77)
    expect(await costOf({ first: -70 })).toBe(0)
    expect((await ask(linear, query, { first: 'many' })).status).toBe(400)
  })

  test('an empty bucket refuses, and refills continuously', async () => {
    await begin({ keyLimits: { requests: 60, points: 100_000 } })
    for (let count = 0; count < 60; count++) expect((await ask(linear, '{ viewer { id } }')).status).toBe(200)
    const { status, body, headers } = await ask(linear, '{ viewer { id } }')
    expect({ status, code: body.errors[0].extensions.code }).toEqual({ status: 400, code: 'RATELIMITED' })
    expect(headers.get('x-ratelimit-requests-remaining')).toBe('0')
    expect(Number(headers.get('x-ratelimit-requests-reset'))).toBe(now + HOUR_MS)
    linear.advance(60_000)
    expect((await ask(linear, '{ viewer { id } }')).status).toBe(200)
    expect((await ask(linear, '{ viewer { id } }')).status).toBe(400)
    linear.advance(2 * HOUR_MS)
    linear.quotaOf(linear.apiKey).drain('points')
    expect((await ask(linear, '{ viewer { id } }')).body.errors[0].extensions.type).toBe('ratelimited')
    expect(linear.counts).toEqual({ viewer: 64 })
  })

  test('a new token shares the quota of the old one', async () => {
    const { accessToken, refreshToken } = linear.grant()
    linear.quotaOf(`Bearer ${accessToken}`).drain()
    const form = { grant_type: 'refresh_token', refresh_token: refreshToken, client_id: APP.clientId }
    const { body } = await post(`${linear.url}/oauth/token`, form)
    const { status } = await ask(linear, '{ viewer { id } }', {}, `Bearer ${body.access_token}`)
    expect(status).toBe(400)
    expect((await ask(linear, '{ viewer { id } }')).status).toBe(200)
  })
})

describe('invalid requests', () => {
  test('unknown fields, invalid queries and other content types are refused', async () => {
    const unknown = await ask(linear, '{ viewer { shoeSize } }')
    expect(unknown).toMatchObject({
      status: 400,
      body: { errors: [{ extensions: { code: 'GRAPHQL_VALIDATION_FAILED', type: 'graphql error' } }] },
    })
    expect((await ask(linear, '{ viewer {')).status).toBe(400)
    const headers = { authorization: linear.apiKey, 'content-type': 'text/plain' }
    const plain = await fetch(linear.graphqlUrl, {
      method: 'POST',
      headers,
      body: '{"query":"{ viewer { id } }"}',
    })
    expect(plain.status).toBe(400)
    expect((await fetch(`${linear.url}/elsewhere`)).status).toBe(404)
  })

  test('requests without a credential are refused', async () => {
    const { status, body, headers } = await ask(linear, '{ viewer { id } }', {}, '')
    expect({ status, data: body.data }).toEqual({ status: 401, data: undefined })
    expect(body.errors[0].extensions).toMatchObject({ code: 'AUTHENTICATION_ERROR', statusCode: 401 })
    expect(headers.get('x-ratelimit-requests-limit')).toBe('60')
  })

  test('the server returns on the same port after an outage', async () => {
    const port = await freePort()
    await linear.stop()
    await linear.listen(port)
    expect((await ask(linear, '{ viewer { id } }')).status).toBe(200)
    await linear.stop()
    await expect(fetch(`http://127.0.0.1:${port}/graphql`)).rejects.toThrow('fetch failed')
    await linear.listen(port)
    expect((await ask(linear, '{ viewer { id } }')).status).toBe(200)
  })

  test('a slow request takes effect even if the caller has left', async () => {
    const { id } = linear.world.issue({ title: 'A' })
    linear.faults.add({ kind: 'slow', ms: 60_000 }, { where: (operation) => operation === 'Say' })
    const query = `mutation Say { commentCreate(input: { issueId: "${id}", body: "Hello" }) { success } }`
    const headers = { authorization: linear.apiKey, 'content-type': 'application/json' }
    const timeouts = new AbortController()
    const body = JSON.stringify({ query })
    const answer = fetch(linear.graphqlUrl, { method: 'POST', headers, body, signal: timeouts.signal })
    await until('the comment is made', () => linear.world.comments.length === 1)
    timeouts.abort()
    await expect(answer).rejects.toThrow()
  })

  test('a failed part is null with an error, and the rest is answered', async () => {
    linear.faults.add({ kind: 'partial', path: ['issues', 'nodes', 0, 'assignee'] })
    linear.world.issue({ title: 'A', assignee: linear.viewer })
    const query = 'query Some { issues(first: 1) { nodes { title assignee { name } } } }'
    const { status, body } = await ask(linear, query)
    expect(status).toBe(200)
    expect(body.data.issues.nodes).toEqual([{ title: 'A', assignee: null }])
    expect(body.errors[0].path).toEqual(['issues', 'nodes', 0, 'assignee'])
  })

  test('pull requests are linked as such with the integration only', async () => {
    const { id } = linear.world.issue({ title: 'A' })
    const LINK = `mutation LinkPr($id: String!, $url: String!) {
      attachmentLinkGitHubPR(issueId: $id, url: $url) { success attachment { id } }
    }`
    const url = 'https://github.com/acme/app/pull/3'
    expect((await ask(linear, LINK, { id, url })).body.errors[0].extensions.code).toBe('INPUT_ERROR')
    linear.hasGitHub = true
    expect((await ask(linear, LINK, { id, url })).body.data.attachmentLinkGitHubPR.success).toBe(true)
    expect((await ask(linear, LINK, { id, url: 'https://example.org' })).body.errors).toHaveLength(1)
  })
})

describe('OAuth', () => {
  const VERIFIER = 'v'.repeat(43)
  const CHALLENGE = createHash('sha256').update(VERIFIER).digest('base64url')
  const authorizeUrl = (more: Record<string, string> = {}): string => {
    const asked = {
      client_id: APP.clientId,
      redirect_uri: REDIRECT,
      response_type: 'code',
      scope: 'read,write',
    }
    return `${linear.url}/oauth/authorize?${new URLSearchParams({ ...asked, state: 's-1', ...more })}`
  }
  const PKCE = { code_challenge: CHALLENGE, code_challenge_method: 'S256' }
  const codeFor = (more: Record<string, string> = PKCE): string =>
    linear.consent(authorizeUrl(more)).searchParams.get('code') ?? ''
  const token = (form: Record<string, string>, headers = {}) =>
    post(`${linear.url}/oauth/token`, form, headers)
  const exchange = (code: string, more: Record<string, string> = { code_verifier: VERIFIER }) =>
    token({
      grant_type: 'authorization_code',
      code,
      redirect_uri: REDIRECT,
      client_id: APP.clientId,
      ...more,
    })
  const refresh = (refresh_token: string, more: Record<string, string> = { client_id: APP.clientId }) =>
    token({ grant_type: 'refresh_token', refresh_token, ...more })

  test('a page asks for consent, and the answer returns with the state', async () => {
    const page = await fetch(authorizeUrl())
    expect([page.status, await page.text()]).toEqual([
      200,
      expect.stringContaining('client-a asks for access'),
    ])
    const approved = await fetch(`${authorizeUrl()}&approve=1`, { redirect: 'manual' })
    const back = new URL(approved.headers.get('location') ?? '')
    expect(back.origin + back.pathname).toBe(REDIRECT)
    expect([...back.searchParams.keys()].sort()).toEqual(['code', 'state'])
    expect(linear.consent(authorizeUrl(), 'refuse').search).toBe('?error=access_denied&state=s-1')
    expect(linear.consent(authorizeUrl({ scope: 'everything' })).search).toBe(
      '?error=invalid_scope&state=s-1',
    )
  })

  test('an unregistered redirect address is refused', async () => {
    const url = authorizeUrl({ redirect_uri: `${REDIRECT}/` })
    expect((await fetch(`${url}&approve=1`, { redirect: 'manual' })).status).toBe(400)
    expect(() => linear.consent(authorizeUrl({ client_id: 'other' }))).toThrow('Unknown client_id')
  })

  test('a code works once, before it expires, with its verifier and address', async () => {
    const code = codeFor()
    const { status, body } = await exchange(code)
    expect(status).toBe(200)
    expect(body).toMatchObject({ token_type: 'Bearer', expires_in: 86_399, scope: 'read write' })
    expect(await byToken(body.access_token).viewer).toMatchObject({ isMe: true })
    const refused = { status: 400, body: { error: 'invalid_grant' } }
    expect(await exchange(code)).toMatchObject(refused)
    expect(await exchange(codeFor(), { code_verifier: 'w'.repeat(43) })).toMatchObject(refused)
    expect(await exchange(codeFor(), {})).toMatchObject(refused)
    const elsewhere = { code_verifier: VERIFIER, redirect_uri: 'http://localhost:1/' }
    expect(await exchange(codeFor(), elsewhere)).toMatchObject(refused)
    const late = codeFor()
    linear.advance(601_000)
    expect(await exchange(late)).toMatchObject(refused)
  })

  test('without PKCE the secret is required, in the form or by Basic', async () => {
    const client_secret = APP.clientSecret
    expect(await exchange(codeFor({}), {})).toMatchObject({ status: 401, body: { error: 'invalid_client' } })
    expect((await exchange(codeFor({}), { client_secret: 'wrong' })).status).toBe(401)
    const { body } = await exchange(codeFor({}), { client_secret })
    expect((await refresh(body.refresh_token)).status).toBe(401)
    const basic = Buffer.from(`${APP.clientId}:${client_secret}`).toString('base64')
    const form = { grant_type: 'refresh_token', refresh_token: body.refresh_token }
    expect((await token(form, { authorization: `Basic ${basic}` })).status).toBe(200)
  })

  test('every refresh retires its refresh token', async () => {
    const first = linear.grant()
    const second = (await refresh(first.refreshToken)).body
    expect(second.refresh_token).not.toBe(first.refreshToken)
    expect(await refresh(first.refreshToken)).toMatchObject({ status: 400, body: { error: 'invalid_grant' } })
    expect((await refresh(second.refresh_token)).status).toBe(200)
    expect(await byToken(first.accessToken).viewer).toMatchObject({ isMe: true })
  })

  test('during the replay window the previous refresh token answers the same pair', async () => {
    linear.accounts.replayMs = 1_800_000
    const { refreshToken } = linear.grant()
    const { body } = await refresh(refreshToken)
    expect((await refresh(refreshToken)).body.refresh_token).toBe(body.refresh_token)
    await refresh(body.refresh_token)
    expect((await refresh(refreshToken)).status).toBe(400)
    linear.advance(1_800_000)
    expect((await refresh(body.refresh_token)).status).toBe(400)
  })

  test('a pair whose reply is lost is issued all the same', async () => {
    const { refreshToken } = linear.grant()
    const minted: string[] = []
    linear.onTokenAnswer = ({ pair }) => {
      minted.push(pair.refreshToken)
      return 'drop'
    }
    await expect(refresh(refreshToken)).rejects.toThrow('fetch failed')
    linear.onTokenAnswer = undefined
    expect((await refresh(refreshToken)).body.error).toBe('invalid_grant')
    expect((await refresh(minted[0] ?? '')).status).toBe(200)
  })

  test('the faults of the token endpoint', async () => {
    const { refreshToken } = linear.grant()
    const once = { times: 1 }
    linear.tokenFaults.add({ kind: 'oauth', error: 'invalid_client', status: 401 }, once)
    linear.tokenFaults.add({ kind: 'too-many', retryAfterSeconds: 30 }, once)
    linear.tokenFaults.add({ kind: 'html' }, once)
    linear.tokenFaults.add(
      { kind: 'reset' },
      { times: 1, where: (grant: string) => grant === 'authorization_code' },
    )
    expect(await refresh(refreshToken)).toMatchObject({ status: 401, body: { error: 'invalid_client' } })
    const tooMany = await refresh(refreshToken)
    expect([tooMany.status, tooMany.headers.get('retry-after')]).toEqual([429, '30'])
    expect(await refresh(refreshToken)).toMatchObject({ status: 502, body: expect.stringContaining('<h1>') })
    linear.tokenFaults.add({ kind: 'no-refresh-token' }, once)
    const kept = await refresh(refreshToken)
    expect([kept.status, 'refresh_token' in kept.body]).toEqual([200, false])
    linear.accounts.accessMs = 1000
    expect((await refresh(refreshToken)).body.expires_in).toBe(1)
    expect(linear.tokenCalls.map(({ status }) => status)).toEqual([401, 429, 502, 200, 200])
  })

  test('a revoked grant ends and cannot be revoked again', async () => {
    const { accessToken, refreshToken } = linear.grant()
    const revoke = (form: Record<string, string>) => post(`${linear.url}/oauth/revoke`, form)
    expect((await revoke({})).status).toBe(401)
    expect((await revoke({ token: refreshToken })).status).toBe(200)
    expect((await revoke({ token: refreshToken })).status).toBe(400)
    expect((await refresh(refreshToken)).body.error).toBe('invalid_grant')
    expect((await ask(linear, '{ viewer { id } }', {}, `Bearer ${accessToken}`)).status).toBe(401)
  })

  test('token requests must be forms', async () => {
    const headers = { 'content-type': 'application/json' }
    const body = JSON.stringify({ grant_type: 'refresh_token', refresh_token: linear.grant().refreshToken })
    const answer = await fetch(`${linear.url}/oauth/token`, { method: 'POST', headers, body })
    expect([answer.status, (await answer.json()) as object]).toMatchObject([
      400,
      { error: 'invalid_request' },
    ])
  })
})
