/**
 * What is read of GitHub's lists of pull requests, without the rest.
 *
 * Each pull request carries both of its repositories, a hundred times as much as what anybody asks of it. Kept whole,
 * the lists of fifty repositories would take tens of MiB, and reading them again, unchanged, a tenth of a second.
 */
import { parseJson } from '../../../protocol/parse.ts'
import type { ReplyProjection } from '../../http/client-types.ts'
import { ANSWER_KEYS_MAX } from './api.ts'
import { readField } from './fields.ts'

/** In GitHub's own shape, for whoever reads one whole reads this just so. */
export const PULL_LIST_PROJECTION: ReplyProjection = {
  name: 'pull list',
  apply(text) {
    const list = parseJson(text, ANSWER_KEYS_MAX)
    return list.ok && Array.isArray(list.value) ? JSON.stringify(list.value.map(projectPull)) : text
  },
}

const FIELDS = [
  'number',
  'html_url',
  'title',
  'state',
  'draft',
  'merged',
  'merged_at',
  'created_at',
  'updated_at',
]

function projectPull(pull: unknown): object {
  return {
    ...Object.fromEntries(FIELDS.map((name) => [name, readField(pull, name)])),
    user: { login: readField(pull, 'user', 'login') },
    base: { ref: readField(pull, 'base', 'ref') },
    head: { ref: readField(pull, 'head', 'ref') },
  }
}
