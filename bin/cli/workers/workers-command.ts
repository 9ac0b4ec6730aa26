/**
 * The noun `workers`, with the noun `join-keys` below it; `workers.ts` is the place to begin.
 *
 * This folder asks a host about its fleet. The worker itself is a program: `programs/worker/`.
 */
import { PORT_MAX, WORKER_CONCURRENCY_MAX, WORKERS_MAX } from '../../../protocol/limits.ts'
import { parsePath, wholeNumber } from '../../process/parse-option.ts'
import { clientCommand } from '../command/client-options.ts'
import { clientAction, runCommand } from '../command/run-command.ts'

const loadWorkers = () => import('./workers.ts')
const loadWorkerActions = () => import('./worker-actions.ts')
const loadWorkerProvision = () => import('./worker-provision.ts')
const loadJoinKeys = () => import('./join-keys.ts')

export const workersCommand = () =>
  clientCommand('workers', 'The machines: list, add, drain, revoke')
    .argument('[worker]', 'one worker')
    .action((name, options) =>
      runCommand(options, async (context) => {
        const workers = await loadWorkers()
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
  clientCommand('list', 'Machines that execute runs').action(
    clientAction(loadWorkers, ({ list }, context) => list(context)),
  )

const showVerb = () =>
  clientCommand('show', 'One worker in full')
    .argument('<worker>')
    .action(clientAction(loadWorkers, ({ show }, context, name) => show(context, name)))

const pairVerb = () =>
  clientCommand('pair', 'Mint a pairing token for one machine').action(
    clientAction(loadWorkerActions, ({ pair }, context) => pair(context)),
  )

const provisionVerb = () =>
  clientCommand('provision', 'Set up a machine over SSH')
    .argument('<user@host>')
    .option('--port <n>', 'of its SSH server (default: 22)', wholeNumber(1, PORT_MAX))
    .option('--identity-file <path>', 'a private key (default: the keys of the SSH agent)', parsePath)
    .option('--name <name>', 'what the fleet calls it (default: HOST)')
    .option('--concurrency <n>', 'runs at once (default: 2)', wholeNumber(1, WORKER_CONCURRENCY_MAX))
    .option('--host-key-sha256 <fingerprint>', 'its key, when known_hosts lacks it')
    .action(clientAction(loadWorkerProvision, ({ provision }, context, target) => provision(context, target)))

const renameVerb = () =>
  clientCommand('rename', 'Call it something else')
    .argument('<worker>')
    .argument('<name>', 'what the fleet calls it from now on')
    .action(
      clientAction(loadWorkerActions, ({ rename }, context, worker, name) => rename(context, worker, name)),
    )

const drainVerb = () =>
  clientCommand('drain', 'Send it no new runs')
    .argument('<worker>')
    .option('--wait', 'until its runs and terminals have ended')
    .option('--timeout <time>', 'with --wait, give up after: 90s, 30m, 3d, or at an instant')
    .action(clientAction(loadWorkerActions, ({ drain }, context, name) => drain(context, name)))

const enableVerb = () =>
  clientCommand('enable', 'Send it runs again')
    .argument('<worker>')
    .action(clientAction(loadWorkerActions, ({ enable }, context, name) => enable(context, name)))

const revokeVerb = () =>
  clientCommand('revoke', 'Remove it for good')
    .argument('<worker>')
    .action(clientAction(loadWorkerActions, ({ revoke }, context, name) => revoke(context, name)))

const joinKeysCommand = () =>
  clientCommand('join-keys', 'Keys for many machines: list, create, delete')
    .action(clientAction(loadJoinKeys, ({ list }, context) => list(context)))
    .addCommand(listKeysVerb())
    .addCommand(createVerb())
    .addCommand(deleteVerb())

const listKeysVerb = () =>
  clientCommand('list', 'Keys that machines join with').action(
    clientAction(loadJoinKeys, ({ list }, context) => list(context)),
  )

const createVerb = () =>
  clientCommand('create', 'Create a key that many machines join with')
    .argument('<name>', 'what the key is for')
    .option('--expires <time>', 'when it stops working: 12h, 30d, or an instant (default: never)')
    .option('--max-workers <n>', 'so many workers at once (default: any number)', wholeNumber(1, WORKERS_MAX))
    .option('--ephemeral', 'remove its workers by themselves after they left')
    .action(clientAction(loadJoinKeys, ({ create }, context, name) => create(context, name)))

const deleteVerb = () =>
  clientCommand('delete', 'Let no more machines join with a key')
    .argument('<key>', 'its id, or its name')
    .option('--workers', 'revoke the workers that joined with it, too')
    .action(clientAction(loadJoinKeys, ({ remove }, context, key) => remove(context, key)))
