/** The noun `workers`. */
import { Option } from '@commander-js/extra-typings'
import { PORT_MAX, WORKER_CONCURRENCY_MAX } from '../../protocol/limits.ts'
import { runCommand } from '../client/run-command.ts'
import { parsePath, parseWholeNumber } from '../parse-option.ts'
import { clientCommand } from './client-options.ts'
import { joinKeysCommand } from './join-keys.ts'

export const workersCommand = () =>
  clientCommand('workers', 'The machines: list, add, drain, revoke')
    .argument('[worker]', 'one worker')
    .action((name, options) =>
      runCommand(options, async (context) => {
        const workers = await import('../commands/workers.ts')
        return name === undefined ? await workers.list(context) : await workers.show(context, name)
      }),
    )
    .addCommand(listVerb())
    .addCommand(showVerb())
    .addCommand(pairVerb())
    .addCommand(provisionVerb())
    .addCommand(joinKeysCommand())
    .addCommand(renameVerb())
    .addCommand(drainVerb())
    .addCommand(enableVerb())
    .addCommand(revokeVerb())

const listVerb = () =>
  clientCommand('list', 'Machines that execute runs').action((options) =>
    runCommand(options, async (context) => (await import('../commands/workers.ts')).list(context)),
  )

const showVerb = () =>
  clientCommand('show', 'One worker in full')
    .argument('<worker>')
    .action((name, options) =>
      runCommand(options, async (context) => (await import('../commands/workers.ts')).show(context, name)),
    )

const pairVerb = () =>
  clientCommand('pair', 'Mint a pairing token for one machine').action((options) =>
    runCommand(options, async (context) => (await import('../commands/worker-actions.ts')).pair(context)),
  )

const provisionVerb = () =>
  clientCommand('provision', 'Set up a machine over SSH')
    .argument('<user@host>')
    .addOption(
      new Option('--port <n>', 'of its SSH server (default: 22)').argParser((text) =>
        parseWholeNumber(text, 1, PORT_MAX),
      ),
    )
    .addOption(
      new Option('--identity-file <path>', 'a private key (default: the keys of the SSH agent)').argParser(
        parsePath,
      ),
    )
    .option('--name <name>', 'what the fleet calls it (default: HOST)')
    .addOption(
      new Option('--concurrency <n>', 'runs at once (default: 2)').argParser((text) =>
        parseWholeNumber(text, 1, WORKER_CONCURRENCY_MAX),
      ),
    )
    .option('--host-key-sha256 <fingerprint>', 'its key, when known_hosts lacks it')
    .action((target, options) =>
      runCommand(options, async (context) =>
        (await import('../commands/worker-provision.ts')).provision(context, target),
      ),
    )

const renameVerb = () =>
  clientCommand('rename', 'Call it something else')
    .argument('<worker>')
    .argument('<name>', 'what the fleet calls it from now on')
    .action((worker, name, options) =>
      runCommand(options, async (context) =>
        (await import('../commands/worker-actions.ts')).rename(context, worker, name),
      ),
    )

const drainVerb = () =>
  clientCommand('drain', 'Send it no new runs')
    .argument('<worker>')
    .option('--wait', 'until its runs and terminals have ended')
    .option('--timeout <time>', 'with --wait, give up after: 90s, 30m, 3d, or at an instant')
    .action((name, options) =>
      runCommand(options, async (context) =>
        (await import('../commands/worker-drain.ts')).drain(context, name),
      ),
    )

const enableVerb = () =>
  clientCommand('enable', 'Send it runs again')
    .argument('<worker>')
    .action((name, options) =>
      runCommand(options, async (context) =>
        (await import('../commands/worker-actions.ts')).enable(context, name),
      ),
    )

const revokeVerb = () =>
  clientCommand('revoke', 'Remove it for good')
    .argument('<worker>')
    .action((name, options) =>
      runCommand(options, async (context) =>
        (await import('../commands/worker-actions.ts')).revoke(context, name),
      ),
    )
