/** Creates the output of a client command from its options and the streams of this process. */
import { startedAs } from '../shell-command.ts'
import type { ColorChoice } from './colors.ts'
import { dataDirIn } from './complete-commands.ts'
import { Output, type PrintFormat } from './output.ts'

/** The options that every client command has. */
export interface PrintOptions {
  readonly json?: boolean | undefined
  /** The value of `-o`. */
  readonly output?: PrintFormat | undefined
  readonly quiet?: boolean | undefined
  readonly color?: ColorChoice | undefined
  readonly dataDir?: string | undefined
}

export function createOutput({ json, output, quiet, color, dataDir }: PrintOptions): Output {
  const { stdout, stderr, env, platform } = process
  const exit = (code: number) => process.exit(code)
  const format = json ? 'json' : output
  const program = startedAs().join(' ')
  return new Output({ stdout, stderr, env, platform, exit, quiet, color, program, dataDir, format })
}

/** The output for the error of a command line whose options were not read to their end. */
export const createOutputFor = (words: readonly string[]): Output =>
  createOutput({ json: asksForJson(words), dataDir: dataDirIn(words) })

const asksForJson = (words: readonly string[]): boolean =>
  words.some(
    (word, at) =>
      /^(?:--json|--output=json|-ojson)$/.test(word) ||
      (/^(?:--output|-o)$/.test(word) && words[at + 1] === 'json'),
  )
