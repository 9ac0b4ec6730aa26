/**
 * Asks the questions of `switchyard init` that no option has answered.
 *
 * A wrong answer is asked again, three times at most. Nothing is written here, so the end of the input changes nothing.
 */
import { join } from 'node:path'
import { TRACKER_DRIVERS, TRACKER_FACTS, type TrackerDriverName } from '../../../protocol/drivers.ts'
import type { Output } from '../../output/output.ts'
import type { Questions } from '../../output/questions.ts'
import { columnsOf, padEnd, padStart, wrapWords } from '../../output/text-width.ts'
import { usageError } from '../../process/exit.ts'
import { type InitAnswers, needsFolder, type StartRule } from './plan-config.ts'

/** Answers that the options give already. */
export type GivenAnswers = Partial<Omit<InitAnswers, 'agent'>> & { readonly label?: string | undefined }

interface AskContext {
  readonly questions: Questions
  readonly output: Output
  readonly dataDir: string
  /** The driver that is configured, if the file names one. */
  readonly configuredDriver: TrackerDriverName | undefined
  /** The repository of the checkout in which the command runs. */
  readonly origin: string | undefined
}

const USUAL_STATE = 'Todo'

export async function askAnswers(
  given: GivenAnswers,
  context: AskContext,
): Promise<Omit<InitAnswers, 'agent'>> {
  const driver = given.driver ?? (await askDriver(context))
  const folder = needsFolder(driver) ? (given.folder ?? (await askFolder(context))) : undefined
  const repository = given.repository ?? (await askRepository(context))
  const starts = given.starts ?? (await askStarts(driver, given.label, context))
  return { driver, repository, starts, ...(folder === undefined ? {} : { folder }) }
}

/** `acme/api` of an `owner/name`; the configuration's own check follows. */
export const isRepository = (text: string): boolean => /^[\w.-]+\/[\w.-]+$/.test(text)

export function ruleOfLabel(driver: TrackerDriverName, label: string | undefined): StartRule {
  if (label !== undefined) return { is: 'label', name: label }
  return { is: TRACKER_FACTS[driver].listsRepositoryIssues === true ? 'label' : 'state', name: USUAL_STATE }
}

// ---- the questions -------------------------------------------------------------------------------------------------

function askDriver(context: AskContext): Promise<TrackerDriverName> {
  const choices = TRACKER_DRIVERS.map((driver) => ({ value: driver, text: describeDriver(driver) }))
  const byDefault = context.configuredDriver ?? 'github'
  return askChoice(context, 'Tickets come from', choices, TRACKER_DRIVERS.indexOf(byDefault))
}

function describeDriver(driver: TrackerDriverName): string {
  if (needsFolder(driver)) return 'a folder'
  return TRACKER_FACTS[driver].listsRepositoryIssues === true ? `${driver} issues` : driver
}

function askFolder(context: AskContext): Promise<string> {
  const byDefault = join(context.dataDir, 'tickets')
  return askText(context, { what: 'Its path', hint: 'of the folder', byDefault }, (path) =>
    path.startsWith('/') ? undefined : 'It begins with /',
  )
}

function askRepository(context: AskContext): Promise<string> {
  const question = { what: 'Repository', hint: 'owner/name', byDefault: context.origin }
  return askText(context, question, (text) => (isRepository(text) ? undefined : 'It is like acme/api'))
}

function askStarts(
  driver: TrackerDriverName,
  label: string | undefined,
  context: AskContext,
): Promise<StartRule> {
  const rule = ruleOfLabel(driver, label)
  const name = rule.is === 'all' ? '' : rule.name
  const choices: readonly AnswerChoice<StartRule>[] = [
    { value: rule, text: `${rule.is === 'label' ? 'with label' : 'in state'} ${name}` },
    { value: { is: 'all' }, text: 'all open ones' },
  ]
  const what = TRACKER_FACTS[driver].listsRepositoryIssues === true ? 'Its issues start' : 'Its tickets start'
  return askChoice(context, what, choices, 0)
}

// ---- their form ----------------------------------------------------------------------------------------------------

const TRIES_MAX = 3
const WHAT_COLUMNS = 21
const PROMPT_COLUMNS = 72
/** Room for an answer at the end of the line. */
const ANSWER_COLUMNS = 4

interface AnswerChoice<T> {
  readonly value: T
  readonly text: string
}

async function askChoice<T>(
  context: AskContext,
  what: string,
  choices: readonly AnswerChoice<T>[],
  byDefault: number,
): Promise<T> {
  const hint = choices.map(({ text }, index) => `(${index + 1}) ${text}`).join('  ')
  const isNumber = (text: string) => /^\d$/.test(text) && choices[Number(text) - 1] !== undefined
  const problem = `Answer with a number from 1 to ${choices.length}`
  const question = { what, hint, byDefault: String(byDefault + 1) }
  const answer = await askText(context, question, (text) => (isNumber(text) ? undefined : problem))
  const choice = choices[Number(answer) - 1]
  if (choice === undefined) throw usageError(problem)
  return choice.value
}

interface TextQuestion {
  readonly what: string
  readonly hint: string
  readonly byDefault: string | undefined
}

/** @param problemOf the sentence about a wrong answer */
async function askText(
  { questions, output }: AskContext,
  { what, hint, byDefault }: TextQuestion,
  problemOf: (text: string) => string | undefined,
): Promise<string> {
  const prompt = beginQuestion(output, { what, hint, byDefault })
  for (let tried = 1; ; tried += 1) {
    const answer = await questions.askAfter(prompt)
    const text = answer === '' ? (byDefault ?? '') : answer
    const problem = problemOf(text)
    if (problem === undefined) return text
    if (tried === TRIES_MAX) throw usageError(`${problem}; nothing was changed`)
    output.writeError(`${problem}.\n`)
  }
}

/** Returns the prompt; where it does not fit into a line, the question goes before it. */
function beginQuestion(output: Output, { what, hint, byDefault }: TextQuestion): string {
  const question = `${padEnd(what, WHAT_COLUMNS)}${hint}`
  if (byDefault === undefined) return `${question}: `
  const columns = Math.min(PROMPT_COLUMNS, output.stderr.width - ANSWER_COLUMNS)
  const prompt = `${question}  ${padStart(`[${byDefault}]:`, columns - columnsOf(question) - 2)} `
  if (columnsOf(prompt) <= output.stderr.width - ANSWER_COLUMNS) return prompt
  const { width } = output.stderr
  const lines = columnsOf(question) <= width ? [question] : wrapWords(question, width)
  output.writeError(`${lines.join('\n')}\n`)
  return `  [${byDefault}]: `
}
