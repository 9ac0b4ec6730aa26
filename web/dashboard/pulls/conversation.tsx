/** The conversation of a pull request: reviews and comments by their time, and a comment of one's own. */
import { useSignal } from '@preact/signals'
import type { PullDetail } from '../../../protocol/pulls.ts'
import { Button } from '../../elements/button.tsx'
import { TextField } from '../../elements/field.tsx'
import { Section } from '../../elements/page-head.tsx'
import { showError } from '../../elements/toasts.ts'
import { host } from '../state/host.ts'
import type { OpenPull } from './pull-page.tsx'
import { Comment } from './thread.tsx'

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
        <TextField
          label="Comment"
          lines={3}
          value={text.value}
          change={(value) => {
            text.value = value
          }}
        />
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
