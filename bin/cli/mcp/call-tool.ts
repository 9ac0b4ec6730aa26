/**
 * Calls one tool: refuses what this server may not do, checks the arguments, and turns every failure into a result that
 * a model can read: a sentence, and the next step where something helps.
 */
import {
  HostNotFound,
  HostRefusal,
  HostUnreachable,
  WrongAddress,
  withoutControls,
} from '../../../client/errors.ts'
import {
  grantOf,
  inputOf,
  MCP_GRANTS,
  type McpGrant,
  type McpToolName,
  speaksAsOperator,
} from '../../../protocol/mcp-tools.ts'
import { messageOf } from '../../../protocol/message-of.ts'
import { createChecker } from '../../../protocol/parse.ts'
import type { RunOptions } from '../../../protocol/run.ts'
import { closeCode, neutralizeMarkup } from '../../../worker/git/work/neutral-markup.ts'
import { completeCommands } from '../../output/complete-commands.ts'
import { isExitError } from '../../process/exit.ts'
import { LogRedactor } from '../../process/log-redaction.ts'
import { findRun } from '../command/names.ts'
import { findPull, formatPull, refuseConcerns } from '../pulls/pull-names.ts'
import { summarizeRun, summarizeTicket } from './fit.ts'
import { readingTools, type ToolContext, type ToolFunctions } from './reading-tools.ts'
import type { CallTool, McpToolResult, ToolCall } from './session.ts'

type AnyTool = (context: ToolContext, input: unknown, call: ToolCall) => Promise<object>

interface CallerOptions extends ToolContext {
  readonly grants: ReadonlySet<McpGrant>
  /** The value of `--data-dir`, for the commands that a failure names. */
  readonly dataDir?: string | undefined
  /** The words by which this program was started. */
  readonly program?: string | undefined
  /** Receives the description of a bug, for standard error. */
  readonly onBug: (text: string) => void
}

export function createToolCaller({ grants, dataDir, program, onBug, ...context }: CallerOptions): CallTool {
  const named = (next: string) => completeCommands(next, { program, dataDir })
  return async (name, input, call) => {
    const refused = findMissingGrant(name, input, grants)
    if (refused !== undefined)
      return failure(`${name} ${refused.why}`, named(startWith(grants, refused.grants)))
    const checked = createChecker(inputOf(name, grants))(input)
    if (!checked.ok) return failure(`${name}: ${checked.error}`)
    try {
      // The checker of the same row accepted the input.
      const result = await (tools[name] as AnyTool)(context, checked.value, call)
      return { content: [{ type: 'text', text: JSON.stringify(result) }], structuredContent: result }
    } catch (error) {
      if (error === call.signal.reason) return failure('the call was ended before its result was there')
      return describeFailure(error, named, onBug)
    }
  }
}

interface MissingGrant {
  readonly why: string
  readonly grants: readonly McpGrant[]
}

function findMissingGrant(
  name: McpToolName,
  input: Readonly<Record<string, unknown>>,
  grants: ReadonlySet<McpGrant>,
): MissingGrant | undefined {
  const grant = grantOf(name)
  const needed =
    grant === undefined ? [] : [grant, ...(speaksAsOperator(input) ? (['instruct'] as const) : [])]
  const missing = needed.filter((each) => !grants.has(each))
  const [first] = missing
  return first === undefined ? undefined : { why: REFUSALS[first], grants: missing }
}

const REFUSALS: Readonly<Record<McpGrant, string>> = {
  write: 'changes something, and this server only reads',
  merge: 'merges, and this server may not',
  instruct: 'with instructions speaks as the operator, and this server may not',
}

/** The command by which the person also allows what is missing. */
function startWith(grants: ReadonlySet<McpGrant>, missing: readonly McpGrant[]): string {
  const options = MCP_GRANTS.filter((grant) => grants.has(grant) || missing.includes(grant))
  return `the person starts it with: switchyard mcp${options.map((grant) => ` --${grant}`).join('')}`
}

const EXPECTED = [HostRefusal, HostNotFound, HostUnreachable, WrongAddress]

function describeFailure(
  error: unknown,
  named: (next: string) => string,
  onBug: (text: string) => void,
): McpToolResult {
  const message = messageOf(error)
  const isExpected = isExitError(error) || EXPECTED.some((kind) => error instanceof kind)
  if (!isExpected) onBug(error instanceof Error ? (error.stack ?? message) : message)
  const cure: unknown = Reflect.get(Object(error), 'cure')
  return failure(message, typeof cure === 'string' ? named(cure) : undefined)
}

function failure(message: string, next?: string): McpToolResult {
  const text = next === undefined ? message : `${message}\nNext: ${next}`
  return { content: [{ type: 'text', text: new LogRedactor().redact(text) }], isError: true }
}

// ---- tools that change something -----------------------------------------------------------------------------------

type WritingTools =
  | `tickets_${'create' | 'start'}`
  | `runs_${'retry' | 'followup' | 'cancel'}`
  | `pulls_${'comment' | 'merge'}`

/** The words of their caller are an agent's, so code hosts must not act on them. */
const writingTools: ToolFunctions<WritingTools> = {
  async tickets_create({ client }, body) {
    const { ticket, run } = await client.createTicket({ body })
    return { ticket: summarizeTicket(ticket), run: run === undefined ? undefined : summarizeRun(run) }
  },

  async tickets_start({ client }, { ticket, ...options }) {
    return summarizeRun(await client.runTicket({ id: ticket, ...bodyOf(options) }))
  },

  async runs_retry({ client }, { run, ...options }) {
    const { id } = await findRun(client, run)
    return summarizeRun(await client.retryRun({ id, ...bodyOf(options) }))
  },

  async runs_followup({ client }, { run, ...options }) {
    const { id } = await findRun(client, run)
    return summarizeRun(await client.followUpRun({ id, ...bodyOf(options) }))
  },

  async runs_cancel({ client }, { run }) {
    const { id } = await findRun(client, run)
    return summarizeRun(await client.cancelRun({ id }))
  },

  async pulls_comment({ client }, { pull, body: text }) {
    const name = await findPull(client, [pull])
    const body = { body: closeCode(neutralizeMarkup(text)) }
    return { pull: formatPull(name), ...(await client.commentPull({ ...name, body })) }
  },

  async pulls_merge({ client }, { pull, ...body }) {
    const name = await findPull(client, [pull])
    // A merge over these is the word of a person.
    await refuseConcerns(client, name, withoutControls)
    return { pull: formatPull(name), ...(await client.mergePull({ ...name, body })) }
  },
}

/** A request without choices has no body. */
const bodyOf = (options: RunOptions): { readonly body?: RunOptions } =>
  Object.keys(options).length === 0 ? {} : { body: options }

const tools: { readonly [N in McpToolName]: unknown } = { ...readingTools, ...writingTools }
