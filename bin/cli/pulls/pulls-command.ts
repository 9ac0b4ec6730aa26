/**
 * The noun `pulls`; `pulls.ts` reads, `pull-actions.ts` changes, `pull-names.ts` finds what a person means.
 *
 * A pull request is `REPO NUMBER`, `REPO#NUMBER`, or the ticket whose newest run opened it.
 */
import { Option } from '@commander-js/extra-typings'
import { clientCommand } from '../command/client-options.ts'
import { clientAction, runCommand } from '../command/run-command.ts'
import { orMeantVerb } from '../command/usage-errors.ts'

const loadPulls = () => import('./pulls.ts')
const loadPullActions = () => import('./pull-actions.ts')

export const pullsCommand = () =>
  clientCommand('pulls', 'What comes out')
    .argument('[pull...]', 'one pull request: REPO NUMBER, or its ticket')
    .action((names, options, noun) =>
      runCommand(options, async (context) => {
        const pulls = await loadPulls()
        if (names.length === 0) await pulls.list(context)
        else await orMeantVerb(noun, names, () => pulls.show(context, names))
      }),
    )
    .addCommand(listVerb())
    .addCommand(readingVerb('show', 'One pull request'))
    .addCommand(readingVerb('diff', 'Its changes'))
    .addCommand(readingVerb('checks', 'Its checks'))
    .addCommand(readingVerb('open', 'Open it in a browser'))
    .addCommand(mergeVerb())
    .addCommand(plainVerb('close', 'Close it without merging'))
    .addCommand(plainVerb('reopen', 'Open it again'))
    .addCommand(plainVerb('ready', 'Take it out of draft'))
    .addCommand(commentVerb())
    .addCommand(reviewVerb())
    .addCommand(replyVerb())
    .addCommand(resolveVerb())

const PULL = '<pull...>'
const PULL_HELP = 'REPO NUMBER, or its ticket'

const listVerb = () =>
  clientCommand('list', 'Pull requests of all repositories')
    .option('--repo <key>', 'only those of one repository')
    .addOption(new Option('--state <state>', 'only these').choices(['open', 'draft', 'merged', 'closed']))
    .action(clientAction(loadPulls, ({ list }, context) => list(context)))

const readingVerb = (verb: 'show' | 'diff' | 'checks' | 'open', summary: string) =>
  clientCommand(verb, summary)
    .argument(PULL, PULL_HELP)
    .action(clientAction(loadPulls, (pulls, context, names) => pulls[verb](context, names)))

const mergeVerb = () =>
  clientCommand('merge', 'Merge it')
    .argument(PULL, PULL_HELP)
    .addOption(
      new Option('--method <method>', 'how commits are joined')
        .choices(['merge', 'squash', 'rebase'])
        .default('merge' as const),
    )
    .option('--anyway', 'also over checks that are red or pending, and what people asked for')
    .action(clientAction(loadPullActions, ({ merge }, context, names) => merge(context, names)))

const plainVerb = (verb: 'close' | 'reopen' | 'ready', summary: string) =>
  clientCommand(verb, summary)
    .argument(PULL, PULL_HELP)
    .action(clientAction(loadPullActions, ({ change }, context, names) => change(context, verb, names)))

const commentVerb = () =>
  clientCommand('comment', 'Comment on it')
    .argument(PULL, PULL_HELP)
    .requiredOption('--body <text>', 'the comment; - reads standard input')
    .action(clientAction(loadPullActions, ({ comment }, context, names) => comment(context, names)))

const reviewVerb = () =>
  clientCommand('review', 'Review it')
    .argument(PULL, PULL_HELP)
    .option('--approve', 'approve it')
    .option('--request-changes', 'ask for changes')
    .option('--comment', 'neither')
    .option('--body <text>', 'the words of the review; - reads standard input')
    .action(clientAction(loadPullActions, ({ review }, context, names) => review(context, names)))

const THREAD_HELP = 'FILE:LINE as pulls show prints it, or its id'

const replyVerb = () =>
  clientCommand('reply', 'Answer one of its review threads')
    .argument(PULL, PULL_HELP)
    .requiredOption('--thread <thread>', THREAD_HELP)
    .requiredOption('--body <text>', 'the answer; - reads standard input')
    .action(clientAction(loadPullActions, ({ reply }, context, names) => reply(context, names)))

const resolveVerb = () =>
  clientCommand('resolve', 'Mark one of its review threads resolved')
    .argument(PULL, PULL_HELP)
    .requiredOption('--thread <thread>', THREAD_HELP)
    .option('--reopen', 'mark it open again')
    .action(clientAction(loadPullActions, ({ resolve }, context, names) => resolve(context, names)))
