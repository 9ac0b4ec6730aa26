/** The conversation of a pull request: reviews and comments by their time, and a comment of one's own. */
import { useSignal } from '@preact/signals'
import type { ComponentChildren } from 'preact'
import { useEffect } from 'preact/hooks'
import type { PullComment, PullDetail, PullThread } from '../../../protocol/pulls.ts'
import { Button } from '../../elements/button.tsx'
import { bound, TextField } from '../../elements/field.tsx'
import { Age } from '../../elements/moments.tsx'
import { Section } from '../../elements/page-head.tsx'
import { showError } from '../../elements/toasts.ts'
import { Markdown } from '../markdown/markdown.tsx'
import { host } from '../state/host.ts'
import type { OpenPull } from './pull-page.tsx'

interface ConversationEntry {
  readonly id: string
  readonly author: string
  readonly authorMayWrite?: boolean
  readonly body: string
  readonly createdAt: string
}

const REVIEW_WORDS: Readonly<Record<string, string>> = {
  APPROVED: '**Approved.**',
  CHANGES_REQUESTED: '**Requested changes.**',
}

function entriesOf({ conversation: { comments, reviews } }: PullDetail): ConversationEntry[] {
  const ofReviews = reviews.map(({ submittedAt, state, body, ...review }) => ({
    ...review,
    body: [REVIEW_WORDS[state.toUpperCase()], body].filter(Boolean).join('\n\n'),
    createdAt: submittedAt,
  }))
  return [...comments, ...ofReviews.filter(({ body }) => body !== '')].sort((a, b) =>
    a.createdAt < b.createdAt ? -1 : 1,
  )
}

export function Conversation({ open: { pull, reload } }: { readonly open: OpenPull }) {
  const text = useSignal('')
  const entries = entriesOf(pull)
  async function send(): Promise<void> {
    try {
      await host.commentPull({ repo: pull.repo, number: pull.number, body: { body: text.value } })
      text.value = ''
      reload()
    } catch (error) {
      showError(error)
    }
  }
  return (
    <Section title="Conversation" count={entries.length}>
      <div class="card padded">
        {entries.length === 0 && <p class="quiet">Nobody has said anything yet.</p>}
        {entries.map((entry) => (
          <Comment key={entry.id} comment={entry} />
        ))}
        <TextField label="Comment" lines={3} {...bound(text)} />
        <Button
          busyWord="Sending"
          unavailable={text.value.trim() === '' ? 'Write something first.' : undefined}
          act={send}
        >
          Send comment
        </Button>
      </div>
    </Section>
  )
}

// ---- threads -------------------------------------------------------------------------------------------------------

interface ThreadProps {
  readonly open: OpenPull
  readonly thread: PullThread
  /** Its line is not in the diff any more. */
  readonly isOutdated: boolean
}

/** A thread of comments on lines: what people say, an answer, and whether it is resolved. */
export function Thread({ open, thread, isOutdated }: ThreadProps) {
  const { pull, reload } = open
  const { id, resolved, comments, path, line } = thread
  const isFolded = useSignal(resolved)
  useEffect(() => {
    isFolded.value = resolved
  }, [resolved])
  const resolve = () =>
    host
      .resolvePullThread({
        repo: pull.repo,
        number: pull.number,
        body: { threadId: id, resolved: !resolved },
      })
      .then(reload, showError)
  const unfold = () => {
    isFolded.value = false
  }
  if (isFolded.value)
    return (
      <div class="pull-thread folded">
        <span class="quiet">
          Resolved: {comments.length} {comments.length === 1 ? 'comment' : 'comments'} by{' '}
          {comments[0]?.author}
        </span>
        <Button kind="link" act={unfold}>
          Show
        </Button>
      </div>
    )
  return (
    <div class="pull-thread">
      {isOutdated && (
        <p class="faint">
          On {path}
          {line !== undefined && `, line ${line}`}, which has changed since.
        </p>
      )}
      {comments.map((comment) => (
        <Comment key={comment.id} comment={comment} />
      ))}
      <Answer open={open} to={comments[0]}>
        <Button small act={resolve}>
          {resolved ? 'Open again' : 'Resolve'}
        </Button>
      </Answer>
    </div>
  )
}

interface AnswerProps extends Pick<ThreadProps, 'open'> {
  readonly to: PullComment | undefined
  /** Stands behind its buttons. */
  readonly children: ComponentChildren
}

/** The answer to a comment, once a person has begun one. */
function Answer({ open: { pull, reload }, to, children }: AnswerProps) {
  const answer = useSignal<string | undefined>(undefined)
  const setAnswer = (text: string | undefined) => {
    answer.value = text
  }
  async function send(): Promise<void> {
    if (to === undefined || answer.value === undefined) return
    try {
      const body = { commentId: to.id, body: answer.value }
      await host.replyPull({ repo: pull.repo, number: pull.number, body })
      setAnswer(undefined)
      reload()
    } catch (error) {
      showError(error)
    }
  }
  if (answer.value === undefined)
    return (
      <div class="pull-thread-acts">
        <Button small act={() => setAnswer('')}>
          Reply
        </Button>
        {children}
      </div>
    )
  return (
    <>
      <TextField label="Your answer" lines={3} value={answer.value} change={setAnswer} autoFocus />
      <div class="pull-thread-acts">
        <Button small act={() => setAnswer(undefined)}>
          Discard
        </Button>
        <Button
          small
          kind="primary"
          busyWord="Sending"
          unavailable={answer.value.trim() === '' ? 'Write something first.' : undefined}
          act={send}
        >
          Send reply
        </Button>
        {children}
      </div>
    </>
  )
}

function Comment({
  comment: { author, authorMayWrite, body, createdAt },
}: {
  readonly comment: Pick<PullComment, 'author' | 'authorMayWrite' | 'body' | 'createdAt'>
}) {
  return (
    <article class="comment">
      <p class="comment-head">
        <strong>{author}</strong> {authorMayWrite === false && <span class="tag">may not write here</span>}{' '}
        <span class="faint">
          <Age since={createdAt} /> ago
        </span>
      </p>
      <Markdown text={body} />
    </article>
  )
}
