/** The title of the document, with the number of things that need a person, and the same number on the app's icon. */
import { effect } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import { address } from '../../router.ts'
import { findPage } from '../pages.ts'
import { totals } from '../state/current-totals.ts'
import { PLACES } from './places.ts'

/** Only installed apps have a badge, and not in every browser. */
interface BadgeNavigator {
  setAppBadge?(count: number): Promise<void>
}

export function useTitle(): void {
  useEffect(
    () =>
      effect(() => {
        const count = totals.value.needsYou
        const place = findPage(address.value.path)?.route.place
        const title = PLACES.find(({ name }) => name === place)?.title ?? 'No such page'
        document.title = `${count > 0 ? `(${count}) ` : ''}${title} · switchyard`
        const app: BadgeNavigator = navigator
        app.setAppBadge?.(count).catch(() => {})
      }),
    [],
  )
}
