/**
 * The command. Parses, starts what was asked for, and turns every foreseen end into a sentence and an exit code.
 */
import { Command, Option } from '@commander-js/extra-typings'
import { Ending, EXIT } from './exit.ts'
import { LOG_FORMATS, LOG_LEVELS } from './log.ts'
import { Scrubber } from './scrub.ts'
import { VERSION } from './version.ts'

// First thing: lmdb ignores file modes, and nothing of ours is for anybody else to read.
process.umask(0o077)

const program = new Command('switchyard')
  .description('A local orchestrator for coding agents: tickets roll in, runs are sorted onto workers.')
  .version(VERSION)
  .exitOverride()
  .configureOutput({ outputError: (text, write) => write(text) })

program
  .command('serve')
  .description('run the host: queue, leases, management API and dashboard socket on this machine')
  .addOption(
    new Option(
      '--data-dir <path>',
      'where everything is kept (default: SWITCHYARD_DATA_DIR, else the platform’s place)',
    ),
  )
  .addOption(new Option('--log-level <level>').choices(LOG_LEVELS).default('info' as const))
  .addOption(
    new Option('--log-format <format>', 'auto: for people on a terminal, JSON otherwise')
      .choices(LOG_FORMATS)
      .default('auto' as const),
  )
  .action(async (options) => {
    const { serve } = await import('./commands/serve.ts')
    await serve(options)
  })

try {
  await program.parseAsync()
} catch (error) {
  process.exitCode = end(error)
}

function end(error: unknown): number {
  if (error instanceof Ending) {
    process.stderr.write(`switchyard: ${error.message}\n`)
    return error.code
  }
  // commander has printed its own message; its own code is 1 for everything, ours tells wrong use apart.
  if (isCommanderError(error)) return error.exitCode === 0 ? EXIT.done : EXIT.usage
  const said = error instanceof Error ? (error.stack ?? error.message) : String(error)
  process.stderr.write(`switchyard: ${new Scrubber().scrub(said)}\n`)
  return EXIT.broken
}

function isCommanderError(error: unknown): error is { code: string; exitCode: number } {
  return (
    error instanceof Error &&
    'code' in error &&
    String(error.code).startsWith('commander.') &&
    'exitCode' in error
  )
}
