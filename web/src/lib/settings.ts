import { oneOf, stored } from './storage'
import { isZone, type Zone } from './time'

export type Theme = 'light' | 'dark' | 'system'

export const theme = stored<Theme>('theme', 'system', oneOf('light', 'dark', 'system'))
export const zone = stored<Zone>('zone', 'local', (value): value is Zone => typeof value === 'string' && isZone(value))
export const navigationOpen = stored<boolean>(
  'navigation',
  true,
  (value): value is boolean => typeof value === 'boolean',
)

/** Keeps the theme attribute of the document, which the style sheet uses, equal to the chosen theme. */
export function followTheme(): void {
  const dark = window.matchMedia('(prefers-color-scheme: dark)')
  const apply = () => {
    const chosen = theme.get()
    const isDark = chosen === 'dark' || (chosen === 'system' && dark.matches)
    document.documentElement.dataset.theme = isDark ? 'dark' : 'light'
  }
  apply()
  dark.addEventListener('change', apply)
  const set = theme.set
  theme.set = value => {
    set(value)
    apply()
  }
  window.addEventListener('storage', apply)
}
