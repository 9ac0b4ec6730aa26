/** A thread of comments on lines: what people say, an answer, and whether it is resolved. */
import { useSignal } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import type { PullComment, PullThread } from '../../../protocol/pulls.ts'
import { Button } from '../../elements/button.tsx'
import { TextField } from '../../elements/field.tsx'
import { Age } from '../../elements/moments.tsx'
import { showError } from '../../elements/toasts.ts'
import { Markdown } from '../markdown/markdown.tsx'
import { host } from '../state/host.ts'
import type { OpenPull } from './pull-page.tsx'

export interface ThreadProps {
  readonly open: OpenPull
  readonly thread: PullThread
  /** Its line is not in the diff any more. */
  readonly isOutdated: boolean
}

export function Thread({ open: { pull, reload }, thread, isOutdated }: ThreadProps) {
  const { id, resolved, comments, path, line } = thread
  const isFolded = useSignal(resolved)
  useEffect(() => {
    isFolded.value = resolved
  }, [resolved])
  const answer = useSignal<string | undefined>(undefined)
  const name = { repo: pull.repo, number: pull.number }
  const [first] = comments
  const resolve = () =>
    host.resolvePullThread({ ...name, body: { threadId: id, resolved: !resolved } }).then(reload, showError)
  async function send(): Promise<void> {
    if (first === undefined || answer.value === undefined) return
    try {
      await host.replyPull({ ...name, body: { commentId: first.id, body: answer.value } })
      answer.value = undefined
      reload()
    } catch (error) {
      showError(error)
    }
  }
  if (isFolded.value)
    return (
      <div class="pull-thread folded">
        <span class="quiet">
          Resolved: {comments.length} {comments.length === 1 ? 'comment' : 'comments'} by {first?.author}
        </span>
        <Button
          kind="link"
          act={() => {
            isFolded.value = false
          }}
        >
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
      {answer.value !== undefined && (
        <TextField
          label="Your answer"
          lines={3}
          value={answer.value}
          change={(value) => {
            answer.value = value
          }}
          autoFocus
        />
      )}
      <div class="pull-thread-acts">
        {answer.value === undefined ? (
          <Button
            small
            act={() => {
              answer.value = ''
            }}
          >
            Reply
          </Button>
        ) : (
          <>
            <Button
              small
              act={() => {
                answer.value = undefined
              }}
            >
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
          </>
        )}
        <Button small act={resolve}>
          {resolved ? 'Open again' : 'Resolve'}
        </Button>
      </div>
    </div>
  )
}

export function Comment({
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
