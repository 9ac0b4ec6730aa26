/**
 * `IssueEdits` tell whether somebody who may not write has changed an issue's words after a label made it eligible.
 *
 * An issue's author edits it, and so do people who may write: when the author may write, nothing is asked. Every edit
 * since the label counts, because a later one of somebody else leaves its words where they are. A label is the word of
 * somebody who may set it, but not where the host itself may have set it with the same account.
 */
import { type Result, yes } from '../../../core/result.ts'
import { isSameName } from '../../../core/tickets/names.ts'
import type { TicketEdit } from '../../../protocol/run.ts'
import type { GithubApi } from '../../codehost/github/api.ts'
import { asInstant, asList, asText, readField } from '../../codehost/github/fields.ts'
import { ownerOf } from '../../codehost/remote-name.ts'
import type { GithubIssue, IssueReference } from './issue.ts'

export interface IssueEdits {
  /** The login of the token's account. */
  readonly viewer: string
  /** All edits of the text and of the title. */
  readonly edits: readonly IssueAct[]
  readonly labelled: readonly (IssueAct & { readonly label: string })[]
}

interface IssueAct {
  readonly by: string
  readonly at: string
}

export interface EligibleLabels {
  /** The labels that make an issue eligible. Without any, every open issue is, whoever has written it. */
  readonly names: readonly string[]
  /** The labels that the host sets, some of which may be among them. */
  readonly ofHost: readonly string[]
}

/** GitHub shows deleted accounts so. */
const NOBODY = 'ghost'
const EVENTS_READ_MAX = 100
const EDITS_READ_MAX = 100

const EDITS_QUERY = `query Edits($owner: String!, $name: String!, $n: Int!) {
  viewer { login }
  repository(owner: $owner, name: $name) {
    issue(number: $n) {
      createdAt
      lastEditedAt
      editor { login }
      userContentEdits(first: ${EDITS_READ_MAX}) {
        totalCount
        nodes { editedAt editor { login } }
      }
      timelineItems(last: ${EVENTS_READ_MAX}, itemTypes: [LABELED_EVENT, RENAMED_TITLE_EVENT]) {
        nodes {
          __typename
          ... on LabeledEvent { createdAt actor { login } label { name } }
          ... on RenamedTitleEvent { createdAt actor { login } }
        }
      }
    }
  }
}`

/** The host moves an issue on from its eligible label, and a run that goes on after an interruption reads it again. */
export const mayHaveForeignEdits = (
  { isOpen, authorMayWrite, labels }: GithubIssue,
  { names, ofHost }: EligibleLabels,
): boolean =>
  isOpen &&
  !authorMayWrite &&
  names.length > 0 &&
  labels.some((label) => isOneOf(label, names) || isOneOf(label, ofHost))

export async function readIssueEdits(
  api: GithubApi,
  { remote, number }: IssueReference,
): Promise<Result<IssueEdits>> {
  const owner = ownerOf(remote)
  const data = await api.graphql({
    query: EDITS_QUERY,
    variables: { owner, name: remote.slice(owner.length + 1), n: number },
    subject: `the edits of issue ${number} of ${remote}`,
    urgency: 'background',
  })
  if (!data.ok) return data
  const issue = readField(data.value, 'repository', 'issue')
  const events = asList(readField(issue, 'timelineItems', 'nodes'))
  const isOf = (type: string) => (event: unknown) => readField(event, '__typename') === type
  return yes({
    viewer: loginOf(readField(data.value, 'viewer')),
    edits: [
      ...textEdits(issue),
      ...events.filter(isOf('RenamedTitleEvent')).flatMap((event) => toAct(event, 'createdAt', 'actor')),
    ],
    labelled: events.filter(isOf('LabeledEvent')).flatMap((event) => {
      const label = asText(readField(event, 'label', 'name'))
      return toAct(event, 'createdAt', 'actor').map((act) => ({ ...act, label }))
    }),
  })
}

/** GitHub lists the words of the beginning among the edits. Where it lists too few, somebody unknown made the last. */
function textEdits(issue: unknown): IssueAct[] {
  const createdAt = asInstant(readField(issue, 'createdAt')) ?? ''
  const listed = readField(issue, 'userContentEdits')
  const edits = asList(readField(listed, 'nodes')).flatMap((edit) => toAct(edit, 'editedAt', 'editor'))
  const last = toAct(issue, 'lastEditedAt', 'editor')
  const isWhole = edits.length >= Number(readField(listed, 'totalCount') ?? 0)
  return [
    ...edits.filter(({ at }) => at > createdAt),
    ...(isWhole ? last : last.map(({ at }) => ({ at, by: NOBODY }))),
  ]
}

function toAct(value: unknown, instantField: string, actorField: string): IssueAct[] {
  const at = asInstant(readField(value, instantField))
  return at === undefined ? [] : [{ at, by: loginOf(readField(value, actorField)) }]
}

const loginOf = (actor: unknown): string => asText(readField(actor, 'login')) || NOBODY

/** Undefined: the words are those that the label was set for, or the word of somebody who may write. */
export function editAfterLabel(
  { author, createdAt }: GithubIssue,
  { viewer, edits, labelled }: IssueEdits,
  { names, ofHost }: EligibleLabels,
): TicketEdit | undefined {
  const words = labelled.filter(
    ({ label, by }) => isOneOf(label, names) && !(isOneOf(label, ofHost) && isSameName(by, viewer)),
  )
  const labelledAt = words.reduce((newest, { at }) => (at > newest ? at : newest), createdAt)
  // A label and an edit of the same second have no order.
  const unread = edits.filter(({ by, at }) => at >= labelledAt && (by === NOBODY || isSameName(by, author)))
  return unread.toSorted((a, b) => (a.at < b.at ? -1 : 1)).at(-1)
}

const isOneOf = (name: string, names: readonly string[]): boolean =>
  names.some((each) => isSameName(each, name))
