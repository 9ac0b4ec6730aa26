/**
 * Calls one tool: refuses what this server may not do, checks the arguments, and turns every failure into a result that
 * a model can read: a sentence, and the next step where something helps.
 */
import { HostNotFound, HostRefusal, HostUnreachable, WrongAddress } from '../../client/errors.ts'
import {
  grantOf,
  inputOf,
  MCP_GRANTS,
  type McpGrant,
  type McpToolName,
  speaksAsOperator,
} from '../../protocol/mcp-tools.ts'
import { createChecker } from '../../protocol/parse.ts'
import { isExitError } from '../exit.ts'
import { LogRedactor } from '../log-redaction.ts'
import { completeCommands } from '../output/complete-commands.ts'
import { readingTools, type ToolContext } from './reading-tools.ts'
import type { CallTool, McpToolResult, ToolCall } from './session.ts'
import { writingTools } from './writing-tools.ts'

type AnyTool = (context: ToolContext, input: unknown, call: ToolCall) => Promise<object>

const tools: { readonly [N in McpToolName]: unknown } = { ...readingTools, ...writingTools }

export interface CallerOptions extends ToolContext {
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
  const message = error instanceof Error ? error.message : String(error)
  const isExpected = isExitError(error) || EXPECTED.some((kind) => error instanceof kind)
  if (!isExpected) onBug(error instanceof Error ? (error.stack ?? message) : message)
  const cure: unknown = Reflect.get(Object(error), 'cure')
  return failure(message, typeof cure === 'string' ? named(cure) : undefined)
}

function failure(message: string, next?: string): McpToolResult {
  const text = next === undefined ? message : `${message}\nNext: ${next}`
  return { content: [{ type: 'text', text: new LogRedactor().redact(text) }], isError: true }
}
