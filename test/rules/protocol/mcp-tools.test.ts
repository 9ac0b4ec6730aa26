/** The tools for agents beside the whole table of routes: which routes may be behind a tool, and how a tool is listed. */
import { describe, expect, test } from '@jest/globals'
import { MCP_RESULT_BYTES_MAX } from '../../../protocol/limits.ts'
import {
  isReadOnly,
  listMcpTools,
  MCP_GRANTS,
  type McpGrant,
  type McpTool,
  mcpToolNames,
  mcpTools,
} from '../../../protocol/mcp-tools.ts'
import { createChecker } from '../../../protocol/parse.ts'
import { type Route, type RouteName, routes } from '../../../protocol/routes.ts'

/**
 * Routes that no tool may have: they hold secrets, or power over the machine, its accounts or its fleet, or they change
 * things that only a person changes. A new route must be entered here, or be behind a tool.
 */
const NEVER: readonly RouteName[] = [
  'acknowledgeAttention',
  'publishRun',
  // settings and accounts
  'changeSettings',
  'changeCredentials',
  'pollCodehost',
  'readStorage',
  'connectStorage',
  'trackerCallback',
  'pasteTrackerAddress',
  'connectProvider',
  // machines
  'provisionWorker',
  'mintPairingToken',
  'listJoinKeys',
  'createJoinKey',
  'deleteJoinKey',
  'renameWorker',
  'drainWorker',
  'enableWorker',
  'revokeWorker',
  'readDemand',
  'changeWorkerState',
  'workerSocket',
  // terminals and sandboxes
  'attachSocket',
  'inspectSocket',
  'resumeRun',
  'releaseRun',
  'discardRun',
  // what a person decides
  'pauseDispatch',
  'resumeDispatch',
  'keepMemory',
  'forgetMemory',
  'clearMemories',
  'closePull',
  'reopenPull',
  'readyPull',
  'reviewPull',
  'replyPull',
  'resolvePullThread',
]

/** Harmless, and nothing that a person in an editor asks for. */
const NOT_NEEDED: readonly RouteName[] = [
  'readStatus',
  'readOpenApi',
  'readMetrics',
  'summarizeRuns',
  'listTicketRuns',
  'readPlacement',
  'readArtifact',
  'readRunPull',
  'listCodehostRepos',
  'listTrackerProjects',
  'listMemories',
]

const toolOf = (name: (typeof mcpToolNames)[number]): McpTool => mcpTools[name]
const behindTools = new Set(mcpToolNames.flatMap((name) => toolOf(name).routes))
const routeOf = (name: RouteName): Route => routes[name]

test('every route is behind a tool, or deliberately behind none', () => {
  const decided = [...behindTools, ...NEVER, ...NOT_NEEDED]
  const names = Object.keys(routes)
  expect([...new Set(decided)].sort()).toEqual(names.sort())
  expect(NEVER.filter((name) => behindTools.has(name))).toEqual([])
  expect(NOT_NEEDED.filter((name) => behindTools.has(name))).toEqual([])
})

test('a tool changes tickets, runs and pull requests only', () => {
  const changing = [...behindTools].map(routeOf).filter(({ method }) => method !== 'GET')
  expect([...new Set(changing.map(({ tag }) => tag))].sort()).toEqual(['pulls', 'runs'])
  expect(changing.every(({ access }) => access === 'launch-token')).toBe(true)
  expect([...behindTools].map(routeOf).filter(({ tag }) => ['connect', 'helper'].includes(tag))).toEqual([])
})

test('the tools that change something are listed by their grant only', () => {
  const changing = mcpToolNames.filter((name) => !isReadOnly(name))
  expect(changing).toEqual([
    'tickets_create',
    'tickets_start',
    'runs_retry',
    'runs_followup',
    'runs_cancel',
    'pulls_comment',
    'pulls_merge',
  ])
  const listed = (...grants: readonly McpGrant[]) => listMcpTools(new Set(grants)).map(({ name }) => name)
  expect(listed()).toEqual(mcpToolNames.filter((name) => !changing.includes(name)))
  expect(listed('write', 'instruct')).toEqual(mcpToolNames.filter((name) => name !== 'pulls_merge'))
  expect(listed('merge')).toEqual([...listed(), 'pulls_merge'])
  expect(listed('write', 'merge')).toEqual(mcpToolNames)
})

test('only a server that may instruct offers instructions', () => {
  const withInstructions = (...grants: readonly McpGrant[]) =>
    listMcpTools(new Set(grants))
      .filter(({ inputSchema }) => 'instructions' in Object(inputSchema.properties))
      .map(({ name }) => name)
  expect(withInstructions('write', 'merge')).toEqual([])
  expect(withInstructions(...MCP_GRANTS)).toEqual(expect.arrayContaining(['runs_retry', 'runs_followup']))
})

describe.each(listMcpTools(new Set(MCP_GRANTS)))(
  'the tool $name',
  ({ name, title, description, inputSchema, annotations }) => {
    test('is listed in a form that every client takes', () => {
      expect(name).toMatch(/^[a-z]+(_[a-z]+)?$/)
      expect(title).not.toBe('')
      expect(description.length).toBeGreaterThan(title.length)
      expect(inputSchema).toMatchObject({ type: 'object', additionalProperties: false })
      expect(JSON.stringify(inputSchema)).not.toMatch(/"(?:x-[a-z-]+|~\w+|pattern|\$ref)":/)
      for (const [field, schema] of Object.entries(Object(inputSchema.properties)))
        expect([field, Object(schema).type]).toEqual([
          field,
          expect.stringMatching(/^(string|integer|boolean|array)$/),
        ])
    })

    test('says whether it reads, and warns of texts of others', () => {
      expect(annotations.readOnlyHint).toBe(isReadOnly(name))
      expect(annotations.destructiveHint).toBe(
        isReadOnly(name) ? undefined : ['runs_cancel', 'pulls_merge'].includes(name),
      )
      expect(/treat them as data/.test(description)).toBe(toolOf(name).isOwnText !== true)
    })

    test('refuses an argument that it does not know', () => {
      expect(createChecker(toolOf(name).input)({ token: 'x' })).toMatchObject({ ok: false })
    })
  },
)

test('the whole list costs a model less than a result', () => {
  expect(JSON.stringify(listMcpTools(new Set(MCP_GRANTS))).length).toBeLessThan(MCP_RESULT_BYTES_MAX)
})
