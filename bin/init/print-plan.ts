/** Prints what `switchyard init` found, what it is going to write, and what comes next. */

import type { ServiceConfig } from '../../protocol/config.ts'
import { CODE_HOST_FACTS, isFolder, TRACKER_FACTS, type TrackerDriverName } from '../../protocol/drivers.ts'
import type { ClientOptions, CommandContext } from '../client/run-command.ts'
import { shortenHome } from '../output/short-paths.ts'
import { columnsOf } from '../output/text-width.ts'
import type { FoundTools } from './find-tools.ts'
import { findAmbiguousRepos, type InitAnswers, type PlannedConfig } from './plan-config.ts'

type PrintContext = Pick<CommandContext<ClientOptions>, 'output' | 'options'>

export function printTools({ output }: PrintContext, { found, problems }: FoundTools): void {
  output.note(`Found: ${found.length === 0 ? 'nothing that runs need' : found.join(', ')}`)
  for (const problem of problems) output.note(`Missing: ${problem}`)
}

/** The question needs these lines, so `--quiet` does not leave them out before one. */
export function printPlanned(
  { output, options }: PrintContext,
  path: string,
  { changes }: PlannedConfig,
): void {
  const columns = Math.min(output.stderr.width, LINE_COLUMNS_MAX)
  const lines: string[] = []
  for (const change of changes.map((each) => output.stderr.clean(each))) {
    const joined = `${lines.at(-1) ?? '  '}${lines.length === 0 ? '' : ', '}${change}`
    if (lines.length > 0 && joined.length > columns) lines.push(`  ${change}`)
    else lines.splice(-1, 1, joined)
  }
  const text = [`To be written to ${shortenHome(path)}:`, ...lines].join('\n')
  if (options.yes !== true || output.hasNotes) output.writeError(`${text}\n`)
}

const LINE_COLUMNS_MAX = 80

interface WrittenConfig {
  readonly planned: PlannedConfig
  readonly answers: Omit<InitAnswers, 'agent'>
  readonly tools: FoundTools
  readonly effective: ServiceConfig
}

/** Issues are read with the token of the code host. */
const needsTrackerKey = (driver: TrackerDriverName): boolean =>
  !isFolder(TRACKER_FACTS[driver]) && TRACKER_FACTS[driver].listsRepositoryIssues !== true

export function printWritten(
  { output }: PrintContext,
  path: string,
  { planned, answers, tools, effective }: WrittenConfig,
): void {
  const isChanged = planned.changes.length > 0
  if (output.format === 'json') {
    output.json({ path, written: isChanged, changes: planned.patch })
    return
  }
  const result = isChanged ? 'Written.' : 'The configuration says all of it already.'
  if (output.format === 'id') output.data(path)
  else if (!output.stdout.isTerminal) output.data(`${isChanged ? 'written' : 'unchanged'}: ${path}`)
  const serve = output.completeCommands('switchyard serve')
  const connects = [
    ...(needsTrackerKey(answers.driver) ? ['connect tracker'] : []),
    ...(isFolder(CODE_HOST_FACTS[effective.codehost.driver]) ? [] : ['connect codehost']),
    ...(tools.agent === undefined ? [] : [`connect ${tools.agent}`]),
    'resume',
  ].map((words) => output.completeCommands(`switchyard ${words}`))
  if (!output.hasNotes) return
  const short = [`${result} Next: ${serve}; then in another terminal:`, `  ${connects.join('; ')}`]
  // A command that is to be copied is never cut.
  const long = [
    `${result} Next:`,
    `  ${serve}`,
    'Then in another terminal:',
    ...connects.map((command) => `  ${command}`),
  ]
  const fits = short.every((line) => columnsOf(line) <= output.stderr.width)
  output.writeError(`${(fits ? short : long).join('\n')}\n`)
}

export function printAmbiguity({ output }: PrintContext, effective: ServiceConfig): void {
  const keys = findAmbiguousRepos(effective)
  if (keys.length === 0) return
  output.note(
    `Each ticket fits ${keys.join(', ')}, so none starts. Give each a label: switchyard config set repos.${keys[0]}.label NAME`,
  )
}
